//! The client and the engines against real servers on this machine, and the messages' schemas.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/api.rs"]
mod api;
#[path = "it/artifact.rs"]
mod artifact;
#[path = "it/browser.rs"]
mod browser;
#[path = "it/browser_forms.rs"]
mod browser_forms;
#[path = "it/browser_guard.rs"]
mod browser_guard;
#[path = "it/browser_limits.rs"]
mod browser_limits;
#[path = "it/browser_site.rs"]
mod browser_site;
#[path = "it/checker.rs"]
mod checker;
#[path = "it/composite.rs"]
mod composite;
#[path = "it/egress.rs"]
mod egress;
#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/limits.rs"]
mod limits;
#[path = "it/llm.rs"]
mod llm;
#[path = "it/look.rs"]
mod look;
#[path = "it/page.rs"]
mod page;
#[path = "it/rebinding.rs"]
mod rebinding;
#[path = "it/schemas.rs"]
mod schemas;
