//! What is asked again after a crash.

use skep_base::Timestamp;

use super::{
    Node, Output,
    table::{Phase, Question},
    working::Work,
};

impl Node {
    /// Asks the agent whatever it was asked and has not answered: the question or the answer went
    /// down with the program.
    pub(super) fn ask_again(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        self.challenge.ask_again();
        for (id, state) in self.tasks.iter().filter(|(_, state)| state.ended.is_none()) {
            if state.plan.decided().is_none() {
                self.ask_again_for_plan(id, out);
            }
            out.extend(state.work.iter().flat_map(Work::questions).map(Output::Ask));
        }
        let jobs = self.jobs.values().filter_map(|job| job.question(now));
        out.extend(jobs.map(Output::Ask));
    }

    fn ask_again_for_plan(&self, id: &str, out: &mut Vec<Output>) {
        let Some(table) = self.tasks.get(id).map(|state| &state.table) else {
            return;
        };
        for question in [Question::Plan, Question::Critique, Question::Vote] {
            let is_its_time = |phase: Phase| match question {
                // A plan that comes late is still good on another board.
                Question::Plan => true,
                Question::Critique | Question::Vote => phase == question.phase(),
            };
            let mut boards = table.boards.iter().filter(|(_, board)| is_its_time(board.phase));
            if table.waits_for(question)
                && let Some((chair, _)) = boards.next()
            {
                out.extend(self.question(id, chair, question).map(Output::Ask));
            }
        }
    }
}
