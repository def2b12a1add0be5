//! Names whose addresses change between two looks.

use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use serde_json::json;
use skep_base::time::ManualClock;
use skep_probe::{Egress, EgressError, Engines, Lookup, Policy, egress::LookingUp};

use crate::fixture::{
    Server, asking, assert_error, assert_verified, dev, now, page, redirect, reply,
};

/// Gives one answer after the other, and says how often it was asked.
#[derive(Debug, Default)]
struct Changing {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Changing {
    fn new(answers: &[&[&str]]) -> Arc<Changing> {
        let parsed = answers.iter().map(|ips| ips.iter().map(|ip| ip.parse().unwrap()).collect());
        Arc::new(Changing { answers: Mutex::new(parsed.collect()), asked: Mutex::default() })
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Lookup for Changing {
    fn lookup(&self, host: &str) -> LookingUp {
        self.asked.lock().unwrap().push(host.to_owned());
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

fn refused(host: &str, ip: &str) -> EgressError {
    EgressError::ForbiddenAddress { host: host.to_owned(), ip: ip.parse().unwrap() }
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_judged() {
    let server = Server::start(|_| reply(200, "text/plain", "judged")).await;
    let url = format!("http://rebind.example:{}/", server.address.port());
    let lookup = Changing::new(&[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1"]]);
    let egress = Egress::with_lookup(dev(), lookup.clone()).unwrap();
    assert_eq!(egress.get(&url).await.unwrap().body, b"judged");
    assert_eq!(lookup.asked(), 1);
    // The next fetch asks anew and judges the new answer; no old connection stands in for it.
    let error = egress.get(&url).await.unwrap_err();
    assert_eq!(error, refused("rebind.example", "169.254.169.254"));
    assert_eq!(lookup.asked(), 2);
    assert_eq!(egress.get(&url).await.unwrap().status, 200);
    assert_eq!((lookup.asked(), server.asked().len()), (3, 2));
}

#[tokio::test]
async fn a_name_that_turns_private_is_refused() {
    let server = Server::start(|_| reply(200, "text/plain", "secret")).await;
    let url = format!("http://rebind.example:{}/", server.address.port());
    let lookup = Changing::new(&[&["127.0.0.1"], &["10.0.0.1"], &["::1"], &["::ffff:127.0.0.1"]]);
    let egress = Egress::with_lookup(Policy::default(), lookup.clone()).unwrap();
    for ip in ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(egress.get(&url).await.unwrap_err(), refused("rebind.example", ip));
    }
    assert_eq!((lookup.asked(), server.asked().len()), (4, 0));
    assert_eq!(egress.get(&url).await.unwrap_err().code(), "unreachable");
}

#[tokio::test]
async fn one_bad_address_among_good_ones_refuses_the_name() {
    let lookup = Changing::new(&[&["8.8.8.8", "192.168.0.1"], &["10.0.0.1", "8.8.8.8"], &[]]);
    let egress = Egress::with_lookup(Policy::default(), lookup).unwrap();
    let url = "http://mixed.example:8080/";
    assert_eq!(egress.get(url).await.unwrap_err(), refused("mixed.example", "192.168.0.1"));
    assert_eq!(egress.get(url).await.unwrap_err(), refused("mixed.example", "10.0.0.1"));
    assert_eq!(egress.get(url).await.unwrap_err().code(), "unreachable");
}

#[tokio::test]
async fn each_hop_is_resolved_once_and_judged() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/first" => redirect(302, "/second"),
        _ => reply(200, "text/plain", "there"),
    })
    .await;
    let url = format!("http://rebind.example:{}/first", server.address.port());
    let lookup = Changing::new(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let egress = Egress::with_lookup(dev(), lookup.clone()).unwrap();
    let error = egress.get(&url).await.unwrap_err();
    assert_eq!(error, refused("rebind.example", "10.0.0.1"));
    assert_eq!((lookup.asked(), server.asked().len()), (2, 1));
}

#[tokio::test]
async fn a_private_name_must_be_this_machine_and_is_not_asked_for_otherwise() {
    let server = Server::start(|_| reply(200, "text/plain", "here")).await;
    let url = format!("http://box.internal:{}/", server.address.port());
    let lookup = Changing::new(&[&["127.0.0.1"], &["8.8.8.8"]]);
    let strict = Egress::with_lookup(Policy::default(), lookup.clone()).unwrap();
    assert_eq!(strict.get(&url).await.unwrap_err().code(), "refused_address");
    assert_eq!(lookup.asked(), 0);
    let egress = Egress::with_lookup(dev(), lookup).unwrap();
    assert_eq!(egress.get(&url).await.unwrap().status, 200);
    assert_eq!(egress.get(&url).await.unwrap_err(), refused("box.internal", "8.8.8.8"));
}

/// A deal's page is where it was said to be when the deal was made, and inside when it is examined.
#[tokio::test]
async fn a_page_that_moves_inside_during_a_deal_is_an_error_and_not_seen() {
    let server = Server::start(|_| reply(200, "text/plain", "before")).await;
    let url = format!("http://rebind.example:{}/", server.address.port());
    let lookup = Changing::new(&[&["127.0.0.1"], &["10.0.0.1"], &["127.0.0.1"]]);
    let egress = Egress::with_lookup(dev(), lookup.clone()).unwrap();
    let engines = Engines::new(egress, Arc::new(ManualClock::new(now())));
    engines.fingerprint(&page("http", url.clone(), None)).await.unwrap();
    let request = asking("http", Some(url), &json!({"expected_content": "before"}));
    assert_error(&engines.examine(&request).await, "refused_address");
    assert_eq!((lookup.asked(), server.asked().len()), (2, 1));
    assert_verified(&engines.examine(&request).await);
}
