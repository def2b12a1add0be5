//! What an agent can see of its notices, and the keys to check them with.

use std::sync::Arc;

use skep_base::hash::sha256;
use skep_market::{Egress, EgressFailure, Sending};
use skep_sdk::Retries;
use skep_wire::{
    identity::{Binding, RegisterAgent, Statement},
    notice::WebhookOutcome,
};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::world::{Agent, Answer, Node, Request, config};

/// Plain HTTP, to wherever the URL says.
#[derive(Debug)]
struct Plain;

impl Egress for Plain {
    fn post(&self, url: String, _: Vec<(String, String)>, body: Vec<u8>) -> Sending<'_, u16> {
        Box::pin(async move {
            let (host, path) = url["http://".len()..].split_once('/').unwrap();
            let mut stream = TcpStream::connect(host).await.unwrap();
            let request = Request::post(&format!("/{path}"), &String::from_utf8(body).unwrap());
            stream.write_all(&request.bytes(host.parse().unwrap())).await.unwrap();
            Ok(Answer::read(&mut stream).await.status)
        })
    }

    fn get_here(&self, url: String, body_max: usize) -> Sending<'_, Vec<u8>> {
        self.get(url, body_max)
    }

    fn get(&self, _: String, _: usize) -> Sending<'_, Vec<u8>> {
        let failure = EgressFailure { code: "none".to_owned(), detail: "not here".to_owned() };
        Box::pin(async move { Err(failure) })
    }
}

fn registration(agent: &Agent, url: &str) -> RegisterAgent {
    let plain = agent.registration();
    let binding = Binding { webhook_hash: Some(sha256(url.as_bytes())), ..plain.binding };
    RegisterAgent {
        wallet_signature: binding.sign_with_wallet(&agent.wallet).unwrap(),
        key_signature: binding.sign(&agent.key).unwrap(),
        webhook_url: Some(url.to_owned()),
        binding,
        ..plain
    }
}

#[tokio::test]
async fn an_agent_sees_what_became_of_its_notices_and_nobody_else_does() {
    let node = Node::start(config()).await;
    let (ada, bob) = (Agent::new(1), node.register(2).await);
    // Nobody posts there: the node itself answers that it is the wrong method.
    let url = format!("http://{}/healthz", node.address);
    let ada_client = node.client(&ada);
    ada_client.register_agent(&registration(&ada, &url)).await.unwrap();
    assert_eq!(ada_client.webhook_log().await.unwrap(), []);
    let sending = node.market.clone().with_egress(Arc::new(Plain));
    assert_eq!(sending.do_due_jobs().await.unwrap(), 1);

    let log = ada_client.webhook_log().await.unwrap();
    let told = ada_client.inbox(None, None).await.unwrap().items;
    assert_eq!((log.len(), told.len()), (1, 1));
    assert_eq!((log[0].event_id, log[0].kind.as_str()), (told[0].id, "agent.registered"));
    assert_eq!((log[0].attempt, log[0].status), (1, Some(405)));
    assert!(matches!(log[0].outcome, WebhookOutcome::Retry { .. }));

    let path = format!("/v1/agents/{}/webhook-log", ada.wallet.address());
    let others = node.send(&Request::get(&path).signed(&node, &bob)).await;
    assert_eq!((others.status, others.code().as_str()), (403, "not_yours"));
    let nobodys = node.send(&Request::get(&path)).await;
    assert_eq!((nobodys.status, nobodys.code().as_str()), (401, "signature_missing"));
    let shown = node.send(&Request::get(&path).signed(&node, &ada)).await;
    assert!(!shown.body.contains("healthz"), "{}", shown.body);
}

#[tokio::test]
async fn everybody_may_know_the_nodes_keys() {
    let node = Node::start(config()).await;
    let answer = node.send(&Request::get("/.well-known/skep-keys")).await;
    assert_eq!(answer.status, 200);
    let text = answer.json()["webhook"].as_str().unwrap().to_owned();
    assert!(text.starts_with("whpk_"), "{text}");
    let client = skep_sdk::Client::new(&node.url).unwrap().with_retries(Retries::NONE);
    let keys = client.node_keys().await.unwrap();
    assert_eq!(keys, node.market.node_keys());
    assert_eq!(keys.webhook.unwrap().to_string(), text);
    assert_eq!(keys.log, client.log_head().await.unwrap().key);
    assert_ne!(keys.webhook.unwrap().0, keys.log);
}
