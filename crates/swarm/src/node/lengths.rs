//! What an agent says and is too long to be sent: nobody would read it.

use skep_wire::swarm::{Message, OpenError};

use super::{Event, Node, Output};

impl Node {
    /// Whether a message about a task can be sent. If not, whoever watches is told, and the agent
    /// may answer again.
    pub(super) fn can_say(
        &self,
        id: &str,
        message: &Message,
        out: &mut Vec<Output>,
    ) -> Result<(), OpenError> {
        let checked = message.check_len(self.me, &self.genesis.swarm);
        if let Err(error) = &checked {
            let (method, reason) = (message.method(), error.to_string());
            out.push(Output::Event(Event::Unsaid { task_id: id.to_owned(), method, reason }));
        }
        checked
    }
}
