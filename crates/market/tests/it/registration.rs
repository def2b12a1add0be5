use skep_base::hash::sha256;
use skep_market::{Refusal, check_webhook};
use skep_wire::identity::{Binding, RegisterAgent, Statement};

use crate::{fixture::*, on_both_engines};

const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

on_both_engines! {
    async fn both_keys_vouch_for_each_other(f: Fixture) {
        let ann = Person::new(1);
        let agent = f.register(&ann).await;
        assert_eq!(agent.did, did(&ann.key));
        assert_eq!(agent.operator, agent.did);
        assert_eq!(agent.current_key, Some(ann.key.public()));
        // A stranger can check what is served.
        let RegisterAgent { binding, wallet_signature, key_signature, .. } = &agent.registration;
        assert_eq!(binding.wallet_signer(wallet_signature), Some(ann.id()));
        assert_eq!(binding.verify(&ann.key.public(), key_signature), Ok(()));
        for name in [ann.id().to_string(), ann.id().to_checksummed(), agent.did.to_string()] {
            assert_eq!(f.market.agent(&name).await.unwrap(), agent);
            let key_of = f.market.key_of(&name).await.unwrap();
            assert_eq!(key_of, (ann.id(), ann.key.public()));
        }
        for name in ["", "ann", &did(&ann.recovery).to_string(), &Person::new(2).id().to_string()] {
            let unknown = Refusal::UnknownAgent { agent: name.to_owned() };
            assert_eq!(refusal(f.market.agent(name).await), unknown);
        }
        assert_eq!(f.kinds().await, ["agent.registered"]);
    }

    async fn every_wrong_signature_has_its_own_reason(f: Fixture) {
        let (ann, ben) = (Person::new(1), Person::new(2));
        let binding = ann.binding(f.now());
        let good = ann.registration(&binding);
        let of_ben = ben.registration(&binding);
        let refused = async |request| refusal(f.market.register_agent(request).await);

        let wallet = RegisterAgent { wallet_signature: of_ben.wallet_signature, ..good.clone() };
        assert_eq!(refused(wallet).await, bad_signature("wallet", "binding"));
        let key = RegisterAgent { key_signature: of_ben.key_signature, ..good.clone() };
        assert_eq!(refused(key).await, bad_signature("Ed25519 key", "binding"));
        let renamed = Binding { name: Some("eve".to_owned()), ..binding.clone() };
        let renamed = RegisterAgent { binding: renamed, ..good.clone() };
        assert_eq!(refused(renamed).await, bad_signature("wallet", "binding"));

        let operated = Binding { operator: Some(did(&ben.key)), ..binding.clone() };
        let alone = ann.registration(&operated);
        let together = "operator and operator_signature come together".to_owned();
        assert_eq!(refused(alone.clone()).await, Refusal::BadStatement { what: together.clone() });
        let uncalled =
            RegisterAgent { operator_signature: Some(good.key_signature), ..good.clone() };
        assert_eq!(refused(uncalled).await, Refusal::BadStatement { what: together });
        let signature = operated.sign(&ben.key).unwrap();
        let signed = RegisterAgent { operator_signature: Some(signature), ..alone.clone() };
        let unknown = Refusal::UnknownOperator { operator: did(&ben.key).to_string() };
        assert_eq!(refused(signed).await, unknown);
        f.market.register_operator(operator(&ben.key, "ben", f.now())).await.unwrap();
        let by_ann = Some(operated.sign(&ann.key).unwrap());
        let wrong = RegisterAgent { operator_signature: by_ann, ..alone };
        assert_eq!(refused(wrong).await, bad_signature("operator", "binding"));

        let same = Binding { recovery_key: Some(ann.key.public()), ..binding };
        let what = "the recovery key must not be the key that it would replace".to_owned();
        assert_eq!(refused(ann.registration(&same)).await, Refusal::BadStatement { what });
        assert_eq!(f.kinds().await, ["operator.registered"]);
    }

    async fn a_statement_is_fresh_or_refused(f: Fixture) {
        let fresh = 10 * MINUTE;
        let now = f.now();
        for (n, issued_at) in [now.minus(fresh + MS), now.plus(fresh + MS)].into_iter().enumerate()
        {
            let who = Person::new(n as u8 + 10);
            let refused = refusal(
                f.market.register_agent(who.registration(&who.binding(issued_at))).await,
            );
            assert_eq!(refused, Refusal::StatementNotFresh { issued_at, minutes: 10 });
            let request = operator(&who.key, "late", issued_at);
            let refused = refusal(f.market.register_operator(request).await);
            assert_eq!(refused, Refusal::StatementNotFresh { issued_at, minutes: 10 });
        }
        for (n, issued_at) in [now.minus(fresh), now.plus(fresh)].into_iter().enumerate() {
            let who = Person::new(n as u8 + 20);
            f.market.register_agent(who.registration(&who.binding(issued_at))).await.unwrap();
        }
    }

    async fn the_same_registration_again_is_the_same(f: Fixture) {
        let ann = Person::new(1);
        let request = ann.registration(&ann.binding(f.now()));
        let first = f.market.register_agent(request.clone()).await.unwrap();
        f.clock.advance(48 * HOUR);
        assert_eq!(f.market.register_agent(request).await.unwrap(), first);
        assert_eq!(f.kinds().await, ["agent.registered"]);
    }

    async fn an_agent_and_a_key_belong_together_for_ever(f: Fixture) {
        let ann = Person::new(1);
        f.register(&ann).await;
        let exists = Refusal::AgentExists { agent: ann.id().to_string() };
        let later = f.now().plus(MS);
        let other = Person::new(1).with_key(ann.other_key(9));
        let taken = other.registration(&other.binding(later));
        assert_eq!(refusal(f.market.register_agent(taken).await), exists);
        let no_recovery = Binding { recovery_key: None, ..ann.binding(later) };
        let taken = ann.registration(&no_recovery);
        assert_eq!(refusal(f.market.register_agent(taken).await), exists);

        let new_key = ann.other_key(1);
        f.change(&ann, ann.rotate(&new_key, f.now())).await.unwrap();
        for key in [ann.key.clone(), new_key] {
            let ben = Person::new(2).with_key(key);
            let request = ben.registration(&ben.binding(f.now()));
            assert_eq!(refusal(f.market.register_agent(request).await), Refusal::KeyTaken);
        }
    }

    async fn a_newer_statement_changes_name_and_webhook(f: Fixture) {
        let ann = Person::new(1);
        let start = f.now();
        f.register(&ann).await;
        let url = "https://ann.example/notices".to_owned();
        let with = |name: &str, url: Option<&String>, issued_at| {
            let binding = Binding {
                name: Some(name.to_owned()),
                webhook_hash: url.map(|url| sha256(url.as_bytes())),
                ..ann.binding(issued_at)
            };
            RegisterAgent { webhook_url: url.cloned(), ..ann.registration(&binding) }
        };
        let newer = with("ann", Some(&url), start.plus(2 * MS));
        let agent = f.market.register_agent(newer).await.unwrap().value;
        assert_eq!(agent.name.as_deref(), Some("ann"));
        assert_eq!(agent.registration.webhook_url, None);
        assert_eq!(f.record(&ann).await.webhook_url, Some(url));

        let exists = Refusal::AgentExists { agent: ann.id().to_string() };
        for issued_at in [start.plus(MS), start.plus(2 * MS)] {
            let older = with("old", None, issued_at);
            assert_eq!(refusal(f.market.register_agent(older).await), exists);
        }
        let none = with("ann", None, start.plus(3 * MS));
        f.market.register_agent(none).await.unwrap();
        assert_eq!(f.record(&ann).await.webhook_url, None);
        assert_eq!(f.kinds().await, ["agent.registered", "agent.updated", "agent.updated"]);
    }

    async fn the_proof_of_the_first_key_outlives_the_registration(f: Fixture) {
        let ann = Person::new(1);
        let first = f.register(&ann).await.registration;
        let new_key = ann.other_key(1);
        f.change(&ann, ann.rotate(&new_key, f.now())).await.unwrap();
        let ann = ann.with_key(new_key);
        f.clock.advance(MS);
        let agent = f.register(&ann).await;
        assert_eq!(agent.registration.binding.public_key, ann.key.public());
        let proof: RegisterAgent = serde_json::from_value(agent.keys[0].proof.clone()).unwrap();
        assert_eq!(proof, first);
        assert_eq!(agent.did, first.binding.public_key.did());
    }

    async fn a_webhook_is_what_was_signed_and_https(f: Fixture) {
        let ann = Person::new(1);
        let with = |url: &str, hashed: &str| {
            let webhook_hash = Some(sha256(hashed.as_bytes()));
            let binding = Binding { webhook_hash, ..ann.binding(f.now()) };
            RegisterAgent { webhook_url: Some(url.to_owned()), ..ann.registration(&binding) }
        };
        let what = "webhook_hash is not the SHA-256 of webhook_url".to_owned();
        let mismatch = Refusal::BadStatement { what };
        let (https, http) = ("https://ann.example/", "http://127.0.0.1:9/");
        let other = with(https, "https://eve.example/");
        assert_eq!(refusal(f.market.register_agent(other).await), mismatch);
        let absent = RegisterAgent { webhook_url: None, ..with(https, https) };
        assert_eq!(refusal(f.market.register_agent(absent).await), mismatch);
        let unsigned = ann.registration(&ann.binding(f.now()));
        let unsigned = RegisterAgent { webhook_url: Some(https.to_owned()), ..unsigned };
        assert_eq!(refusal(f.market.register_agent(unsigned).await), mismatch);

        let what = "a webhook_url begins with https://".to_owned();
        let refused = refusal(f.not_dev().register_agent(with(http, http)).await);
        assert_eq!(refused, Refusal::BadStatement { what });
        f.market.register_agent(with(http, http)).await.unwrap();
    }

    async fn an_operator_countersigns_its_agents(f: Fixture) {
        let (op, other) = (Person::new(8).key, Person::new(9).key);
        let request = operator(&op, "hive", f.now());
        let first = f.market.register_operator(request.clone()).await.unwrap();
        assert_eq!(first.value.operator, did(&op));
        assert_eq!(f.market.register_operator(request.clone()).await.unwrap(), first);
        assert_eq!(f.market.operator(&did(&op)).await.unwrap(), first.value);
        let mut forged = operator(&other, "other", f.now());
        forged.key_signature = request.key_signature;
        let refused = refusal(f.market.register_operator(forged).await);
        assert_eq!(refused, bad_signature("operator's key", "operator statement"));

        let ann = Person::new(1);
        let binding = Binding { operator: Some(did(&op)), ..ann.binding(f.now()) };
        let operator_signature = Some(binding.sign(&op).unwrap());
        let request = RegisterAgent { operator_signature, ..ann.registration(&binding) };
        let agent = f.market.register_agent(request).await.unwrap().value;
        assert_eq!(agent.operator, did(&op));

        let ben = Person::new(2);
        f.register(&ben).await;
        let unknown = Refusal::UnknownOperator { operator: did(&other).to_string() };
        assert_eq!(refusal(f.change(&ben, ben.attach(&other, f.now())).await), unknown);
        f.market.register_operator(operator(&other, "other", f.now())).await.unwrap();
        let to_op = ben.attach(&op, f.now());
        assert_eq!(f.change(&ben, to_op.clone()).await.unwrap().operator, did(&op));
        let to_other = ben.attach(&other, f.now());
        assert_eq!(f.change(&ben, to_other).await.unwrap().operator, did(&other));
        // Sent again by whoever saw it, the first statement does not bring the first one back.
        assert!(f.market.change_keys(&ben.id(), to_op).await.unwrap().replayed);
        let ben_now = f.market.agent(&ben.id().to_string()).await.unwrap();
        assert_eq!(ben_now.operator, did(&other));
    }
}

#[test]
fn addresses_for_notices() {
    for good in ["https://a.example", "https://a.example:8443/x?y#z", "https://[::1]/"] {
        assert_eq!(check_webhook(good, false), Ok(()), "{good}");
    }
    let long = format!("https://a.example/{}", "x".repeat(2000));
    for bad in [
        "",
        "a.example",
        "ftp://a.example",
        "HTTPS://a.example",
        "http://a.example",
        "https://",
        "https:///path",
        "https://user@a.example/",
        "https://user:word@a.example/",
        "https://a.example/a b",
        "https://a.example/\n",
        &long,
    ] {
        assert!(check_webhook(bad, false).is_err(), "{bad}");
    }
    assert_eq!(check_webhook("http://127.0.0.1:1/", true), Ok(()));
}
