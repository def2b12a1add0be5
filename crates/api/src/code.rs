//! Every problem code that can be answered, in one table.
//!
//! An answer is made from a [`Code`] and from nothing else, so that a code which is not explained
//! here cannot be sent.

use http::StatusCode;

macro_rules! codes {
    ($($code:ident $name:literal $status:literal $retry:ident $title:literal $more:literal;)*) => {
        /// What went wrong, in one stable word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $more] $code,)* }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$code,)*];

            /// Stable: programs decide by it.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$code => $name,)* }
            }

            pub const fn status(self) -> StatusCode {
                match StatusCode::from_u16(match self { $(Code::$code => $status,)* }) {
                    Ok(status) => status,
                    Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
                }
            }

            /// For people; the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$code => $title,)* }
            }

            /// What it means and what to do next.
            pub const fn explanation(self) -> &'static str {
                match self { $(Code::$code => $more,)* }
            }

            /// Whether the same request may work later.
            pub const fn is_retryable(self) -> bool {
                match self { $(Code::$code => codes!(@ $retry),)* }
            }
        }
    };
    (@ retry) => { true };
    (@ final) => { false };
}

codes! {
    MalformedJson "malformed_json" 400 final "The body is not JSON"
        "The body must be one JSON value in UTF-8. The detail names the line and column.";
    DuplicateKey "duplicate_key" 400 final "A key occurs twice"
        "An object of the body has the same key twice, so two readers could disagree about it.";
    NumberTooLarge "number_too_large" 400 final "A number cannot be read exactly"
        "Integers beyond 2^53 - 1 are not read alike everywhere. Send such numbers as strings.";
    TooDeep "too_deep" 400 final "The JSON nests too deep"
        "Arrays and objects may nest 128 levels deep.";
    WrongShape "wrong_shape" 400 final "The body is not what this endpoint takes"
        "A field is missing, unknown or of another type. The detail begins with its path.";
    MalformedId "malformed_id" 400 final "The path holds no id of the right kind"
        "Ids have one form, which the detail names. Agents go by 0x… or did:swarm:…";
    MalformedQuery "malformed_query" 400 final "The query is not what this endpoint takes"
        "A query parameter is unknown, missing or of another type.";
    MalformedCursor "malformed_cursor" 400 final "The cursor is not one of ours"
        "Give a cursor back exactly as it came in next_cursor, to the same list.";
    MalformedIdempotencyKey "malformed_idempotency_key" 400 final "The Idempotency-Key is malformed"
        "An Idempotency-Key is 1 to 128 visible ASCII characters, sent once.";
    SignatureMissing "signature_missing" 401 final "The request is not signed"
        "Sign it as RFC 9421 says, with tag=\"skep\". The SDK does it.";
    SignatureMalformed "signature_malformed" 400 final "The signature cannot be read"
        "Signature-Input, Signature or Content-Digest is not well formed. The detail says where.";
    SignatureNotCovered "signature_not_covered" 400 final "The signature leaves something out"
        "It must cover @method, @authority, @path, @query if there is one, content-digest and \
         content-type if there is a body, and idempotency-key if it is sent.";
    SignatureExpired "signature_expired" 401 final "The signature has expired"
        "Sign again. If it was fresh, compare the clock with the Date header of this answer.";
    SignatureNotYetValid "signature_not_yet_valid" 401 final "The signature is from the future"
        "Its created is more than 30 seconds ahead of this node's clock.";
    SignatureLifetimeTooLong "signature_lifetime_too_long" 400 final "The signature lives too long"
        "expires may be at most 300 seconds after created.";
    WrongAudience "wrong_audience" 401 final "The request was signed for another node"
        "@authority must be a name of this node. Behind a proxy, the proxy must keep Host.";
    DigestMismatch "digest_mismatch" 400 final "The body was changed"
        "SHA-256 of the body is not what Content-Digest says.";
    UnknownKey "unknown_key" 401 final "The signer is not known"
        "keyid names no registered agent, or its key is revoked and not yet replaced.";
    BadSignature "bad_signature" 401 final "The signature does not verify"
        "The request was changed, or another key signed it.";
    NotYours "not_yours" 403 final "It belongs to somebody else"
        "Only the agent itself, or a side of the transfer, may do or see this.";
    NotFound "not_found" 404 final "There is nothing here"
        "No endpoint has this path. See /docs.";
    MethodNotAllowed "method_not_allowed" 405 final "This path does not take the method"
        "The Allow header names those that it takes.";
    RequestTimeout "request_timeout" 408 retry "The request took too long"
        "No answer was ready in time; it may still take effect. Send it again with the same \
         Idempotency-Key.";
    BodyTooSlow "body_too_slow" 408 retry "The body came too slowly"
        "The body paused for too long, or took too long as a whole. Nothing was done.";
    BodyTooLarge "body_too_large" 413 final "The body is too large"
        "The detail names the limit.";
    BodyBroken "body_broken" 400 retry "The body broke off"
        "The connection ended before the body did. Nothing was done.";
    UnsupportedMediaType "unsupported_media_type" 415 final "The body must be application/json"
        "Set Content-Type: application/json.";
    NonceReused "nonce_reused" 409 final "The nonce was used for another request"
        "A nonce belongs to one request for ever. Sign again with a fresh one.";
    IdempotencyKeyReused "idempotency_key_reused" 422 final
        "The Idempotency-Key was used for another request"
        "The same key came with another body, path or method. Choose a new key for a new request.";
    RateLimited "rate_limited" 429 retry "Too many requests"
        "Wait as long as Retry-After says. RateLimit shows what is left.";
    UnknownAgent "unknown_agent" 404 final "There is no such agent"
        "Register it with POST /v1/agents.";
    UnknownOperator "unknown_operator" 404 final "There is no such operator"
        "Register it with POST /v1/operators.";
    KeyNotCurrent "key_not_current" 401 final "The key is not the agent's current one"
        "The key was replaced or revoked. Sign with the current one.";
    BadStatementSignature "bad_statement_signature" 401 final
        "A signature in the body does not hold"
        "A statement is signed over its canonical JSON (RFC 8785) with its type. The detail names \
         the signer.";
    BadStatement "bad_statement" 422 final "The statement says something that cannot be"
        "The detail names what does not fit.";
    StatementNotFresh "statement_not_fresh" 422 final "The statement is too old, or from the future"
        "Its issued_at must be near now. Sign a new statement, or check the clock.";
    AgentExists "agent_exists" 409 final "The agent is registered already"
        "It is registered with other keys or by a newer statement. Keys change at \
         POST /v1/agents/{id}/keys.";
    KeyTaken "key_taken" 409 final "The key belongs to another agent"
        "A key has one owner for ever. Make a fresh one.";
    OldKeyNotCurrent "old_key_not_current" 409 final "The replaced key is not the current one"
        "old_key must be the agent's current key. GET /v1/agents/{id} shows it.";
    KeyRevoked "key_revoked" 409 final "The agent's key is revoked"
        "Only a recovery can bring in a new one.";
    NoRecoveryKey "no_recovery_key" 409 final "The agent has no recovery key"
        "It is named once, when the agent is registered.";
    NotTheRecoveryKey "not_the_recovery_key" 403 final "Another recovery key was registered"
        "Only the key that was registered can recover the agent.";
    RecoveryWaiting "recovery_waiting" 409 final "A recovery is waiting already"
        "Cancel it first, or wait until it takes effect.";
    NoRecoveryWaiting "no_recovery_waiting" 409 final "No such recovery is waiting"
        "It was cancelled, took effect, or was never asked for.";
    RecoveryTooEarly "recovery_too_early" 409 final "The recovery must wait"
        "It takes effect after its delay, in which the owner can object.";
    NotSignedByOwner "not_signed_by_owner" 403 final "The owner did not sign"
        "The wallet or the agent's current key must sign this.";
    KeyNeverHeld "key_never_held" 404 final "The agent never had this key"
        "GET /v1/agents/{id} lists its keys.";
    AlreadyRevoked "already_revoked" 409 final "The key is revoked already"
        "Nothing is left to do.";
    KeyUsedBefore "key_used_before" 409 final "The key was used before"
        "A key that was replaced does not come back. Make a fresh one.";
    CompromisedInFuture "compromised_in_future" 422 final "compromised_since lies in the future"
        "It says since when the key may have been in other hands.";
    TooManyKeys "too_many_keys" 409 final "The agent has had too many keys"
        "Register a new agent.";
    InsufficientFunds "insufficient_funds" 409 final "The wallet does not hold enough"
        "The detail says what is free and what is needed. Held money is not free.";
    LimitReached "limit_reached" 409 final "The budget does not allow it"
        "The detail says what is left.";
    ZeroAmount "zero_amount" 422 final "A transfer moves more than zero"
        "Send a positive amount.";
    SameAccount "same_account" 422 final "Payer and payee are the same"
        "A transfer needs two different wallets.";
    AssetMismatch "asset_mismatch" 422 final "The two accounts hold different assets"
        "Money is never changed from one asset into another on the way.";
    NotItsBudget "not_its_budget" 422 final "The budget is for another wallet"
        "Name a budget of the paying wallet.";
    BudgetIsNoWallet "budget_is_no_wallet" 422 final "A budget holds no money"
        "A budget only limits a wallet.";
    UnknownBudget "unknown_budget" 404 final "There is no such budget"
        "The detail names it.";
    TransferIdTaken "transfer_id_taken" 409 final "The transfer's id is taken"
        "Another transfer has this id. A retry must have the same contents.";
    UnknownTransfer "unknown_transfer" 404 final "There is no such transfer"
        "There is none with this id that the signer is a side of.";
    NotPending "not_pending" 409 final "The transfer is not a hold"
        "Only a pending transfer can be posted or voided.";
    AlreadyPosted "already_posted" 409 final "The hold was posted already"
        "A hold ends once.";
    AlreadyVoided "already_voided" 409 final "The hold was voided already"
        "A hold ends once.";
    MoreThanPending "more_than_pending" 422 final "More than the hold cannot be posted"
        "The detail says how much is held.";
    AmountOverflow "amount_overflow" 422 final "An account cannot hold that much"
        "Amounts are counted in 63 bits of minor units.";
    MoneyFrozen "money_frozen" 403 final "The wallet is frozen for a while"
        "After a change of keys no money leaves for a day. The detail says until when.";
    InDebt "in_debt" 409 final "The wallet is in debt"
        "Whatever comes in pays the debt first; until then nothing can be spent.";
    NotDev "not_dev" 404 final "There is no test money here"
        "Test money is given only by a node that was made with --dev.";
    FaucetLimit "faucet_limit" 422 final "The faucet does not give that much"
        "Ask for less at a time.";
    Internal "internal" 500 final "Something is broken here"
        "It is logged under the request id. Nothing was written.";
    Unavailable "unavailable" 503 retry "The node cannot do this now"
        "The database did not answer. Nothing was written; try again.";
    OutcomeUnknown "outcome_unknown" 503 retry "It is not known whether it was done"
        "The database's answer was lost. Send the same request again: it is done once only.";
}

impl Code {
    pub fn find(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stable_words() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        for (code, name) in Code::ALL.iter().zip(&names) {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert!(code.status().as_u16() >= 400, "{name}");
            assert!(code.explanation().ends_with('.') || code.explanation().ends_with('…'));
            assert_eq!(Code::find(name), Some(*code));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
