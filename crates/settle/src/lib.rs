//! The rules of VCAP: who may do what to a deal, when, and what money moves then.
//!
//! Everything here is pure: time comes in, nothing is read or written. Four small machines follow
//! sections 4.1 to 4.4 and one follows 7.3; [`deal::Deal`] joins them, so that one step of a deal
//! is one step of each. Invariants: an escrow closes once; what its legs move sums to what was
//! held; a verdict counts only with a proof that [`proof::check`] has found good; nothing but a
//! verdict, both parties or an agreed deadline moves money.

pub mod agreement;
pub mod aivs;
pub mod criteria;
pub mod deal;
pub mod escrow;
pub mod evidence;
pub mod money;
pub mod negotiation;
pub mod offer;
pub mod proof;
pub mod recording;
pub mod review;
pub mod session;
pub mod session_proof;
pub mod terms;
pub mod verification;

pub use self::{
    deal::Deal,
    offer::{BadMessage, Offer},
    terms::{Policy, SubsidyLimits, Terms},
};
