use skep_base::Timestamp;
use skep_wire::swarm::{Commit, Meta, Reveal, Share};

use super::*;
use crate::seal::{Key, Signatures};

struct Board {
    keys: Vec<Key>,
    record: Vec<Arc<Signed>>,
}

impl Board {
    fn say(&mut self, by: usize, message: Message) {
        let key = &self.keys[by];
        let sent_at = Timestamp::from_ms(1);
        let meta = Meta { signer: key.did, swarm: "s".to_owned(), epoch: 1, sent_at };
        self.record.push(Arc::new(Signed::seal(meta, message, Vec::new(), key)));
    }

    fn new() -> Board {
        let keys: Vec<Key> =
            (0..5).map(|number| Key::derive(Signatures::Fast, 1, number)).collect();
        let ready = Ready {
            task_id: "t".to_owned(),
            chair_id: keys[0].did,
            members: keys.iter().map(|key| key.did).collect(),
            adversarial_critic: None,
            senate: Vec::new(),
            task: None,
        };
        let mut board = Board { keys, record: Vec::new() };
        board.say(0, Message::Ready(ready));
        for (by, name) in [(0, "p"), (1, "q")] {
            let plan = Plan {
                plan_id: name.to_owned(),
                task_id: "t".to_owned(),
                proposer: board.keys[by].did,
                epoch: 1,
                subtasks: Vec::new(),
                rationale: String::new(),
                estimated_parallelism: Share::ONE,
                created_at: Timestamp::from_ms(1),
                salt: None,
            };
            let (task_id, plan_hash) = ("t".to_owned(), json_sha256(&plan).unwrap());
            let commit = Commit { task_id, proposer: plan.proposer, epoch: 1, plan_hash };
            board.say(by, Message::Commit(commit));
            board.say(by, Message::Reveal(Reveal { task_id: "t".to_owned(), plan }));
        }
        board
    }

    fn vote(&mut self, by: usize, rankings: &[&str]) {
        let vote = PlanVote {
            task_id: "t".to_owned(),
            epoch: 1,
            voter: self.keys[by].did,
            rankings: rankings.iter().map(|id| (*id).to_owned()).collect(),
            critic_scores: BTreeMap::new(),
        };
        self.say(by, Message::PlanVote(vote));
    }

    fn winner(&self) -> String {
        match recount("t", &self.record) {
            Some(Chosen::Plan { plan_id, .. }) => plan_id,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nobody_counts_twice_and_no_liar_at_all() {
    let mut board = Board::new();
    board.vote(2, &["p", "q"]);
    board.vote(3, &["p", "q"]);
    board.vote(4, &["q", "p"]);
    board.vote(4, &["q", "p"]);
    board.vote(4, &["q", "p"]);
    assert_eq!(board.winner(), "p");
    // Both friends of p vote again, otherwise: their votes are void, and q has one.
    board.vote(2, &["q", "p"]);
    board.vote(3, &["q", "p"]);
    assert_eq!(board.winner(), "q");
    // Its own proposer's first choice does not count.
    board.vote(0, &["p", "q"]);
    assert_eq!(board.winner(), "q");
}
