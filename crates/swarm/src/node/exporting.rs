//! What a node can show to others of what was decided (decision 51).

use std::sync::Arc;

use skep_wire::swarm::{Message, Signed};

use super::{Node, Output, perform};

impl Node {
    /// The elections that this node can prove, the oldest first.
    pub fn elections(&self) -> impl Iterator<Item = &Arc<Signed>> {
        self.certified.iter().map(|kept| &kept.0)
    }

    /// The certificates of a task's plan and of its result, with what they follow from: once they
    /// are sealed, they are a transcript together with the elections and [`Node::known_keys`].
    pub fn transcript(&self, task_id: &str) -> Vec<(Message, Vec<Arc<Signed>>)> {
        let Some(state) = self.tasks.get(task_id) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for accord in [Some(&state.plan), state.result.as_ref()].into_iter().flatten() {
            if accord.decided().is_some() {
                perform(accord.tell(vec![self.me]), &mut out);
            }
        }
        let said = out.into_iter().filter_map(|output| match output {
            Output::Send { message, attached, .. } => Some((message, attached)),
            _ => None,
        });
        said.collect()
    }
}
