//! What liars do.

use std::fmt;

/// One way to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lie {
    /// Different commits to different members.
    EquivocateCommit,
    /// Different ballots, about plans and in elections.
    EquivocateBallot,
    /// Different values to different witnesses, as a leader.
    EquivocateProposal,
    /// Signs whatever anybody proposes, in both steps.
    SignEverything,
    /// Tells only half of the others what was decided.
    HalfCertificate,
    WithholdReveal,
    /// Takes another's plan for its own.
    StealPlan,
    /// Two ballots to everybody.
    DoubleVote,
    /// Signs in others' names, with its own key.
    Forge,
    /// Sends old messages of others again.
    Replay,
    Flood,
    /// Claims scores without evidence.
    Boast,
    /// Delivers something else than was asked for.
    FalseWork,
    /// Accepts every result.
    AcceptAll,
    /// Forms a board, tells half of it, and is gone.
    DieAsChair,
    /// Proposes a value to half of the witnesses, and is gone.
    DieAsLeader,
    /// Is somewhere else with every keepalive and ballot, and echoes what it likes.
    FalsePlace,
    /// Does not do the work of an epoch's challenge, and now and then says that it has.
    FalseCompute,
    /// Wants two values to be final, and has friends who sign both.
    TwoBundles,
    /// Hears everything and says nothing.
    Silent,
    /// As a leader has a message in its record that is there already, or has no part in it.
    PadRecord,
    /// Proposes what an honest leader proposes, in a later view that it leads, and is silent then.
    JumpViews,
    /// Gives an order of its own the id of a client's task.
    SquatId,
    /// As a chair leaves others' ballots out, or sits alone.
    DropBallots,
    /// Commits when others have revealed, to one of their plans.
    LateCommit,
    /// Attaches the same again and again, and what nobody needs.
    FatBundles,
    /// Says that its work is made of parts, and has invented them.
    InventedParts,
    /// Hears of a task that another chairs, sits for it alone, and says that there is no plan.
    RaceChair,
    /// As a chair leaves others' plans out.
    HidePlans,
    /// As the leader of an election leaves out who else stands.
    StandAlone,
    /// Reveals its plan to half of the others only.
    RevealToHalf,
    /// Takes parts, does them, and delivers nothing.
    WithholdWork,
    /// Says in elections that its friends were always there, and nobody else ever.
    FalseWitness,
    /// The same, and as the leader leaves out as many ballots as it can, always the same ones.
    CountFew,
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Lie {
    /// What liars choose from, unless they are told.
    pub const DRAWN: [Lie; 20] = [
        Lie::EquivocateCommit,
        Lie::EquivocateBallot,
        Lie::EquivocateProposal,
        Lie::SignEverything,
        Lie::HalfCertificate,
        Lie::WithholdReveal,
        Lie::StealPlan,
        Lie::DoubleVote,
        Lie::Forge,
        Lie::Replay,
        Lie::Flood,
        Lie::Boast,
        Lie::FalseWork,
        Lie::AcceptAll,
        Lie::DieAsChair,
        Lie::DieAsLeader,
        Lie::FalsePlace,
        Lie::FalseCompute,
        Lie::TwoBundles,
        Lie::Silent,
    ];

    /// Some have one of these, too, of each list. Each is drawn apart, by its name: what else is
    /// drawn from a seed stays what it was when a list is added.
    pub const DRAWN_APART: [(&str, &[Lie]); 8] = [
        ("lies", &[Lie::PadRecord, Lie::LateCommit, Lie::FatBundles]),
        ("seldom lies", &[Lie::JumpViews, Lie::SquatId, Lie::DropBallots]),
        ("inventions", &[Lie::InventedParts]),
        ("seizures", &[Lie::RaceChair, Lie::HidePlans, Lie::StandAlone]),
        ("half words", &[Lie::RevealToHalf]),
        ("false witness", &[Lie::FalseWitness]),
        ("idle hands", &[Lie::WithholdWork]),
        ("few ballots", &[Lie::CountFew]),
    ];

    /// Every lie there is.
    pub fn all() -> impl Iterator<Item = Lie> {
        let apart = Lie::DRAWN_APART.into_iter().flat_map(|(_, lies)| lies.iter().copied());
        Lie::DRAWN.into_iter().chain(apart)
    }

    /// The lie with this name.
    pub fn named(name: &str) -> Option<Lie> {
        Lie::all().find(|lie| lie.to_string() == name)
    }
}
