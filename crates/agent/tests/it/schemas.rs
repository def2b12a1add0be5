//! A seller's own schema of a custom capability, at its door.

use serde_json::{Value, json};
use skep_agent::seller::{Offer, OfferError, Seller, SellerError, work_fn};

use crate::stage::{PRICE, World, escrow, seller_wallet};

/// Takes a number of words and promises to say which.
fn offer(world: &World, output: Value) -> Offer {
    let mut offer = world.offer();
    offer.schema = Some(json!({
        "input": {
            "type": "object", "required": ["words"],
            "properties": { "words": { "type": "integer", "minimum": 1 } },
        },
        "output": output,
    }));
    offer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_that_do_not_fit_are_refused_before_anybody_pays() {
    let world = World::new().await;
    let shop = world.open(offer(&world, json!({ "required": ["echo"] }))).await;
    let buyer = world.buyer(1);
    for params in [json!({}), json!({ "words": 0 }), json!({ "words": "many" })] {
        let plain = shop.post("/hire", &json!({ "params": params }), None).await;
        assert_eq!((plain.status, plain.code()), (400, "bad_params"), "{plain:?}");
        let signed = shop.hire(&buyer.hire(params)).await;
        assert_eq!((signed.status, signed.code()), (400, "bad_params"), "{signed:?}");
        assert!(signed.body["errors"].to_string().contains("words"), "{signed:?}");
    }
    // A payment that was signed for something else does not help.
    let good = buyer.hire(json!({ "words": 1 }));
    let payment = buyer.payment(&good, &shop.hire(&good).await);
    let refused = shop.pay(&buyer.hire(json!({ "words": 0 })), &payment).await;
    assert_eq!((refused.status, refused.code()), (400, "bad_params"));
    assert_eq!((world.runs(), world.bank.with(|books| books.settles)), (0, 0));
    let done = shop.pay(&good, &payment).await;
    assert_eq!((done.status, world.runs()), (200, 1), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_do_not_fit_are_not_sold() {
    let world = World::new().await;
    let output = json!({ "properties": { "text": { "type": "string" } }, "required": ["text"] });
    for mode in [skep_wire::hire::PaymentMode::Direct, escrow()] {
        let mut offer = offer(&world, output.clone());
        offer.modes = vec![mode];
        offer.work =
            std::sync::Arc::new(work_fn(async |params: Value, _| match &params["words"] {
                words if *words == json!(1) => Ok(json!({ "text": "one" })),
                words => Ok(json!({ "text": words })),
            }));
        let shop = world.open(offer).await;
        let buyer = world.buyer(2);
        let before = world.bank.balance(buyer.id());
        let bad = shop.bought(&buyer, &buyer.hire(json!({ "words": 2 }))).await;
        assert_eq!((bad.status, bad.code()), (502, "bad_output"), "{bad:?}");
        assert!(bad.body["detail"].as_str().unwrap().contains("at /text"), "{bad:?}");
        assert_eq!(world.bank.balance(buyer.id()), before, "nobody pays for it");
        let good = shop.bought(&buyer, &buyer.hire(json!({ "words": 1 }))).await;
        assert_eq!((good.status, &good.body["result"]["text"]), (200, &json!("one")), "{good:?}");
        assert_eq!(world.bank.balance(buyer.id()), before - PRICE);
        shop.close().await;
    }
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_opens_nothing() {
    let world = World::new().await;
    let config = world.config(vec![offer(&world, json!({ "type": "objekt" }))]);
    let Err(SellerError::Offer(error)) = Seller::open(config).await else { panic!("it opened") };
    assert!(matches!(error, OfferError::Schema { .. }), "{error}");
    assert!(error.to_string().starts_with("the schema of custom.test.echo cannot be used: output"));
    assert_eq!(world.bank.balance(seller_wallet().address()), 0);
}
