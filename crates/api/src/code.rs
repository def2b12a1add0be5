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
    OperatorInCooldown "operator_in_cooldown" 409 final "The agent's operator answers for fraud"
        "Nobody leaves an operator in its cool-down. The detail says when it ends.";
    OperatorChanged "operator_changed" 409 retry "The agent got another operator meanwhile"
        "Nothing was written; try again.";
    TooManyOperators "too_many_operators" 409 final "The agent has left too many operators"
        "Each answers for 90 days for what the agent did there. The detail says how long to wait.";
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
    Promised "promised" 409 final "The money is promised to open deals"
        "What the wallet will owe when its deals are released cannot be spent before.";
    UnknownDeal "unknown_deal" 404 final "There is no such deal"
        "There is none with this id that the signer is a part of.";
    BadMessage "bad_message" 422 final "The message says something that cannot be"
        "The detail begins with the field. GET /vcap/v1/schemas/{message} shows the form.";
    SelfDeal "self_deal" 422 final "Nobody deals with itself"
        "Requester and provider must be two agents.";
    NotYourTurn "not_your_turn" 409 final "It is the other side's turn"
        "Offers alternate. Only the side that was asked accepts or counters.";
    NegotiationClosed "negotiation_closed" 409 final "The negotiation is over"
        "It was accepted or declined. Open a new one.";
    OfferExpired "offer_expired" 409 final "The offer has expired"
        "Nobody answered in time. Open a new negotiation.";
    TooManyRounds "too_many_rounds" 409 final "There were too many offers"
        "After ten offers only yes or no is left.";
    PriceChanged "price_changed" 409 final "The acceptance names another price"
        "Accept what is on the table, or counter. GET /vcap/v1/negotiations/{id} shows it.";
    EscrowFundingFailed "escrow_funding_failed" 409 final "The requester cannot pay"
        "The negotiation stays as it was. Fund the wallet and accept again.";
    RemainderLimit "remainder_limit" 409 final "Too much is promised already"
        "Open remainders have a limit in terms of the free balance. Counter with reserve.";
    AdvanceLimit "advance_limit" 409 final "Too much was advanced already"
        "A provider's open advances stay below what it earned in 90 days.";
    DeadlineInPast "deadline_in_past" 422 final "The deadline has passed already"
        "Counter with a later one.";
    BadExpiry "bad_expiry" 422 final "The offer expires at an impossible time"
        "An offer stands for some time, and for 90 days at most.";
    AlreadySettled "already_settled" 409 final "The escrow was settled before"
        "GET /vcap/v1/settlements/{id} shows how.";
    AlreadyDelivered "already_delivered" 409 final "The work was delivered"
        "From then on a verdict decides, or both sides together.";
    DeadlinePassed "deadline_passed" 409 final "The time for delivery is over"
        "The requester is refunded.";
    DeadlineNotPassed "deadline_not_passed" 409 final "It is too early for a refund"
        "The detail says from when on anyone may ask for it.";
    AutoApproveNotAgreed "auto_approve_not_agreed" 403 final "The provider's word is not enough"
        "auto_approve needs the requester's agreement in the terms, a TRUSTED provider and a \
         price below the limit. Deliver without it.";
    BaselinePending "baseline_pending" 409 retry "The page's old state is being taken"
        "Deliver again in a moment.";
    NoBaselineWanted "no_baseline_wanted" 409 final "No baseline is wanted"
        "It was taken, the work was delivered, or another verifier was asked.";
    UnknownVerification "unknown_verification" 404 final "There is no such verification"
        "GET /vcap/v1/agreements/{id} lists those of a deal.";
    NotTheVerifier "not_the_verifier" 403 final "Another verifier was asked"
        "Only the one that the marketplace asked may answer.";
    VerificationOver "verification_over" 409 final "The verification is over"
        "It has its verdict. The first one counts.";
    VerificationTimedOut "verification_timed_out" 409 final "The verification timed out"
        "A reviewer decides now, and sees what came late.";
    ReviewOver "review_over" 409 final "The review is over"
        "It was decided, or its time passed.";
    NothingToDispute "nothing_to_dispute" 409 final "No verdict can be contested now"
        "Only a failed verdict inside the deal's dispute window can.";
    DisputeOpen "dispute_open" 409 final "A dispute is open already"
        "A reviewer decides within 72 hours.";
    NothingToObject "nothing_to_object" 409 final "There is nothing to object to"
        "Only the provider's own word, inside its window.";
    BadSplit "bad_split" 422 final "The price is not divided right"
        "At most the price can be released, and both parts make up all of it.";
    SplitNotAllowed "split_not_allowed" 403 final "Only a reviewer divides a price"
        "An engine says yes, no, or that it cannot tell. Both sides can agree on a split.";
    TooManyAttempts "too_many_attempts" 409 final "There were too many attempts to verify"
        "A reviewer must decide.";
    CriteriaChanged "criteria_changed" 409 final "The delivery changes the criteria"
        "What was agreed stands. A delivery may only fill what the terms left open.";
    NotTheProvider "not_the_provider" 403 final "Only the provider may do this"
        "The deal names its provider.";
    NotTheRequester "not_the_requester" 403 final "Only the requester may do this"
        "The deal names its requester.";
    ProofMissing "proof_missing" 422 final "The callback carries no proof bundle"
        "Send proof_bundle or proof_bundle_uri, or register as bundle-less.";
    ProofUnreadable "proof_unreadable" 422 final "The proof bundle cannot be read"
        "The detail says why.";
    ProofHashMismatch "proof_hash_mismatch" 422 final "proof_hash is not the bundle's"
        "It is SHA-256 over the bundle's canonical JSON (RFC 8785).";
    ProofForeign "proof_foreign" 422 final "The proof belongs to another verification"
        "The detail names the field. A proof is good for one escrow only.";
    ProofOtherSpec "proof_other_spec" 422 final "The proof is about other criteria"
        "The bundle's spec must be the one of the verification request.";
    ProofOutcomeMismatch "proof_outcome_mismatch" 422 final "passed and outcome differ"
        "passed is true exactly if the bundle's outcome is VERIFIED.";
    ProofFieldMismatch "proof_field_mismatch" 422 final "Callback and bundle differ"
        "The detail names the field.";
    ProofChainBroken "proof_chain_broken" 422 final "The chain of actions is broken"
        "Each hash is over the action's canonical JSON and the hex of the hash before.";
    ProofBadAction "proof_bad_action" 422 final "An action of the log is not well formed"
        "Actions are numbered from 0 without gaps, and have a name.";
    ProofBadAttachment "proof_bad_attachment" 422 final "An attachment does not fit the proof"
        "Each is named by its SHA-256 in an action, once; at most 4, together 1.5 MiB of base64.";
    ProofContentChanged "proof_content_changed" 422 final "extracted_content was changed"
        "Its SHA-256 is not the one in the bundle.";
    ProofForeignIdentity "proof_foreign_identity" 422 final "agent_identity is another's"
        "It must be the verifier's registered key.";
    ProofBadSignature "proof_bad_signature" 422 final "proof_signature does not verify"
        "It is Ed25519 over the canonical JSON of the six fields of VCAP 5.2, by the named key.";
    UnknownVerifier "unknown_verifier" 404 final "There is no such verifier"
        "Register it with POST /vcap/v1/verifiers.";
    VerifierNotIndependent "verifier_not_independent" 409 final "The verifier is not independent"
        "It is one of the sides, or run by the operator of one.";
    VerifierLacksEngine "verifier_lacks_engine" 422 final "The verifier has no such engine"
        "GET /vcap/v1/verifiers/{id} lists its engines.";
    VerifierTooDear "verifier_too_dear" 409 final "The verifier asks for more"
        "Counter with a higher verifier_price_minor.";
    UnknownVerifierKey "unknown_verifier_key" 403 final "The verifier has no such key"
        "kid must name a key that it registered.";
    VerifierKeyRevoked "verifier_key_revoked" 403 final "The verifier's key was revoked"
        "Sign with one that is good.";
    VerifierKeyExpired "verifier_key_expired" 403 final "The verifier's key is not valid now"
        "Register a fresh one with POST /vcap/v1/verifiers/{id}/keys.";
    BadKeyId "bad_key_id" 422 final "The key id or the key cannot be used"
        "A kid is 1 to 64 letters, digits, dots, dashes and underscores; kids and keys are used \
         once.";
    BadVerifier "bad_verifier" 422 final "The verifier cannot be as it says"
        "The detail names what does not fit.";
    NotAReviewer "not_a_reviewer" 403 final "Only reviewers may do this"
        "The node's operator names them; they are registered with the engine human.";
    ReviewersOnly "reviewers_only" 403 final "A reviewer decides this, and only this"
        "Engines answer at /callback, reviewers at /vcap/v1/reviews/{id}/decision.";
    BadCompletionTime "bad_completion_time" 422 final "completed_at cannot be"
        "It lies between the request and now, within five minutes.";
    BundleUnreachable "bundle_unreachable" 422 final "The proof bundle cannot be fetched"
        "Send it inline as proof_bundle.";
    NotSettled "not_settled" 404 final "There is no settlement"
        "The deal is open, or there is none.";
    UnknownMessage "unknown_message" 404 final "There is no such message"
        "The detail names the seven.";
    BenchmarkRequired "benchmark_required" 400 final "The provider holds no benchmark"
        "The members say what it lacks. Ask a provider that holds one, or leave the wish out.";
    DealBusy "deal_busy" 503 retry "The deal changed meanwhile"
        "Nothing was written; try again.";
    UnknownSession "unknown_session" 404 final "There is no such session of yours"
        "Open one with POST /conduit/sessions.";
    SessionOver "session_over" 409 final "The session is over"
        "It was closed, or failed. GET /conduit/sessions/{id} says why; open another.";
    NothingDone "nothing_done" 409 final "Nothing was done in the session"
        "Act first, or close it with failed and a reason.";
    TierTooLow "tier_too_low" 403 final "The agent's tier does not allow this"
        "required_tier is the one that does, tier the agent's own. Nothing was done or charged.";
    BudgetSpent "budget_spent" 409 final "The session's maximum does not pay for this"
        "Nothing was done or charged. Close the session and open one with a higher \
         max_cost_minor.";
    TooManyActions "too_many_actions" 409 final "The session has all the actions it may have"
        "Close it and open another.";
    MaxCostTooLow "max_cost_too_low" 422 final "The session could not pay for a single action"
        "Set max_cost_minor to at least the price of a billable action, or leave it out.";
    TooManySessions "too_many_sessions" 409 final "The agent has too many sessions open"
        "Close one first.";
    PurposeTooLong "purpose_too_long" 422 final "The purpose is too long"
        "It is one sentence for whoever reads the proof, of at most 1024 bytes.";
    BadAction "bad_action" 422 final "The action cannot be done as it was asked"
        "A field is missing, or is one that the action does not take. Nothing was done or charged.";
    NoBrowser "no_browser" 503 final "There is no browser here"
        "The node's operator has to install Chromium or name a gateway. No money was held.";
    GatewayBusy "gateway_busy" 503 retry "Every browser is in use"
        "Try again in a moment. No money was held.";
    GatewayUnavailable "gateway_unavailable" 503 retry "The browser cannot be reached"
        "Send the same request again: it is done once only. A session that stays unreachable fails \
         and costs nothing.";
    SessionBusy "session_busy" 503 retry "Other actions of the session came first"
        "Send one after the other.";
    SessionOpen "session_open" 409 final "The session is open"
        "Its proof is made when it is closed; the action EXPORT_PROOF gives the one so far.";
    NoSessionProof "no_session_proof" 404 final "The session has no proof"
        "Its gateway was lost before it could sign. The session has cost nothing.";
    BadSecret "bad_secret" 401 final "The gateway's secret is another"
        "A node and its gateway have the same gateway_secret, sent as Authorization: Bearer.";
    BadWalletSignature "bad_wallet_signature" 401 final "The wallet's signature does not hold"
        "Canonical JSON without signature, Keccak-256, EIP-191 over the 32 bytes, by the wallet \
         that the message names.";
    BadCapability "bad_capability" 422 final "This cannot be a capability"
        "GET /v1/capabilities lists them; a name of one's own is custom.YOU.WHAT.";
    BadPrice "bad_price" 422 final "The price cannot be"
        "A price is more than 0, in USDC with at most six decimals.";
    BadLatency "bad_latency" 422 final "max_latency_ms cannot be"
        "It is 100 to 60000.";
    BadEndpoint "bad_endpoint" 422 final "The endpoint cannot be listed"
        "It is an https address on the public internet, without query; --dev allows this machine.";
    DescriptionTooLong "description_too_long" 422 final "The description is too long"
        "It has at most 2000 bytes.";
    BadVerificationVersion "bad_verification_version" 422 final "There is no such version"
        "The capability's schema says which versions may be offered.";
    NotClarifiable "not_clarifiable" 422 final "Capabilities of the taxonomy are not clarified"
        "Leave clarification_supported out, or list a capability of your own.";
    WrongEscrow "wrong_escrow" 422 final "The escrow is kept elsewhere"
        "platform_escrow names this node; another one is named by its address, as \
         custom_escrow:URL.";
    BadEscrowAddress "bad_escrow_address" 422 final "The escrow's address cannot be used"
        "It is an https address on the public internet; --dev allows this machine.";
    BadCurrency "bad_currency" 422 final "Listings are in USDC"
        "Say currency USDC, or leave it out.";
    IssuedAtMissing "issued_at_missing" 422 final "The listing has no issued_at"
        "It lets a later listing replace an earlier one, and never the other way round.";
    ListingTooLarge "listing_too_large" 422 final "The listing says too much"
        "The chain's name and the fields that are not part of a listing are short and flat.";
    ListingsFull "listings_full" 409 final "The agent has as many listings as it may"
        "Remove one first, or publish one of those again.";
    TooManyListings "too_many_listings" 429 retry "The agent publishes too often"
        "Wait for the seconds in Retry-After.";
    EndpointNotProven "endpoint_not_proven" 422 final "The endpoint does not show whose it is"
        "It answers GET /.well-known/swarmwage-verify?nonce=N within 5 seconds with agent_id, \
         nonce and the agent's signature over both, and does not redirect.";
    NoEgress "no_egress" 503 final "This node asks no endpoints"
        "Publish at another node of the marketplace.";
    UnknownListing "unknown_listing" 404 final "There is no such listing"
        "It was removed, or there never was one of this agent, capability and payment mode.";
    ListingRemoved "listing_removed" 409 final "The listing was removed since"
        "Sign it anew, with a later issued_at.";
    ListingNewer "listing_newer" 409 final "The listing is newer than this word"
        "Sign the removal anew, with a later issued_at.";
    NobodyPaidThere "nobody_paid_there" 404 final "The address names no one agent"
        "No listing pays to it, or those of several agents do.";
    BadSearch "bad_search" 422 final "The search cannot be done"
        "The detail says what does not fit.";
    UnknownCapability "unknown_capability" 404 final "There is no such capability"
        "GET /v1/capabilities lists them. The schema of a custom one is at its seller's.";
    BadProtocolVersion "bad_protocol_version" 422 final "The protocol is not spoken here"
        "Say swarmwage/v0.1 to v0.3; v0.4 with a quote.";
    BadHireId "bad_hire_id" 422 final "The hire_id cannot be"
        "It is short and plain; one such as rcpt_… follows from seller, buyer and hire.";
    BadReceipt "bad_receipt" 422 final "The receipt cannot be"
        "The detail says what does not fit.";
    SelfHire "self_hire" 422 final "Nobody hires itself"
        "The buyer is neither the seller nor who is paid.";
    ReceiptNotFresh "receipt_not_fresh" 422 final "The receipt does not come in time"
        "completed_at is within the last 24 hours, and at most five minutes ahead. For a payment \
         that has no receipt yet there are 30 days.";
    WrongPayee "wrong_payee" 422 final "The listing pays somebody else"
        "A receipt's payee is its listing's.";
    UnknownPayment "unknown_payment" 404 final "There is no such payment"
        "tx_hash is the one that /x402/settle of this marketplace answered.";
    PaymentMismatch "payment_mismatch" 422 final "The payment is another one"
        "Payer, amount, payee, hire and escrow of receipt and payment are the same.";
    BadFreeCall "bad_free_call" 422 final "A free call does not look like this"
        "It has amount 0, a tx_hash of zeros and the hire_hash of what its buyer signed, and its \
         listing says first_call_free.";
    FreeCallUsed "free_call_used" 409 final "The buyer had its free call"
        "There is one for each buyer of a listing.";
    PaymentUsed "payment_used" 409 final "The payment has a receipt"
        "One payment pays for one hire.";
    DuplicateHireId "duplicate_hire_id" 409 final "There is another receipt of this hire_id"
        "GET /v1/receipts/{id} shows it.";
    UnknownReceipt "unknown_receipt" 404 final "There is no such receipt"
        "The seller submits it with POST /v1/receipts.";
    WrongReceiptHash "wrong_receipt_hash" 422 final "The hash is of another receipt"
        "It is the SHA-256 of the canonical receipt with its signature.";
    NotTheBuyer "not_the_buyer" 403 final "Only the buyer says this"
        "The receipt names its buyer.";
    AlreadyCountersigned "already_countersigned" 409 final "The buyer has spoken already"
        "A receipt is counter-signed once.";
    NoPayloadWanted "no_payload_wanted" 422 final "This hire's payload is not kept"
        "It is kept for hires in escrow and for listings with audit_participating.";
    PayloadMismatch "payload_mismatch" 422 final "The payload is not the receipt's"
        "params and result have the hashes that the receipt names.";
    PaymentRefused "payment_refused" 422 final "The payment is not taken"
        "The detail says why. POST /x402/verify and /x402/settle answer 200 with the reason.";
    PaymentIdentifierReused "payment_identifier_reused" 409 final "The payment-identifier was used"
        "It names another payment of this payer. Send that one again, or choose a fresh id.";
    BadBudget "bad_budget" 422 final "The budget cannot be that"
        "The detail names what does not fit.";
    BudgetNotYetValid "budget_not_yet_valid" 422 final "The budget is not good yet"
        "issued_at is ahead of this node's clock.";
    BudgetExpired "budget_expired" 422 final "The budget is over"
        "Ask whoever gave it for another.";
    NotYourBudget "not_your_budget" 422 final "The budget is another agent's"
        "agent_id must be the one that pays.";
    WrongBudgetIssuer "wrong_budget_issuer" 422 final "Somebody else gives this budget"
        "The agent's operator does, or the owner of the budget that parent names.";
    BadBudgetSignature "bad_budget_signature" 422 final "The budget's signature does not hold"
        "It is over the token's id, by the operator's key or the owner's wallet.";
    UnknownParentBudget "unknown_parent_budget" 422 final "There is no such parent"
        "Make the budget that parent names known first, with POST /v1/budgets.";
    BudgetTooDeep "budget_too_deep" 422 final "The budget was passed on too often"
        "Ask somebody nearer to the operator.";
    BudgetOutlivesParent "budget_outlives_parent" 422 final "The part would outlive its budget"
        "Choose a shorter max_duration_seconds.";
    BudgetExceeded "budget_exceeded" 422 final "The budget has not that much left"
        "GET /v1/budgets/{id} shows what is left.";
    UnknownEscrow "unknown_escrow" 404 final "There is no such escrow of a hire"
        "Settling a payment with escrow terms makes one. Deals have theirs at /vcap/v1/escrows.";
    OtherEscrowOrder "other_escrow_order" 422 final "The order is for something else"
        "escrow_id and verb of the order must be those of the path.";
    BadEscrowSignature "bad_escrow_signature" 422 final "The order's signature does not hold"
        "It is the wallet's of whoever by names, over the order's canonical JSON.";
    NotYourEscrow "not_your_escrow" 403 final "Somebody else decides that"
        "The buyer releases and refunds; the seller delivers and may refund.";
    EscrowOver "escrow_over" 409 final "The escrow was settled before"
        "GET /v1/escrows/{id} says how.";
    NotDelivered "not_delivered" 409 final "Nothing was delivered yet"
        "The money goes back by itself at refund_at if nothing comes.";
    EscrowDelivered "escrow_delivered" 409 final "Something else was delivered before"
        "One hire has one delivery.";
    WrongResult "wrong_result" 422 final "That is not the result"
        "result_hash must be the delivered receipt's, params_hash the hire's.";
    RefundTooEarly "refund_too_early" 409 final "The time is not over"
        "The detail says when it is.";
    DeliveredTooLate "delivered_too_late" 409 final "The time for the delivery is over"
        "The money goes back to the buyer.";
    ScoreNotPublished "score_not_published" 404 final "The agent's score is not published"
        "With fewer than ten sessions only the agent itself sees its score, by a signed request.";
    IssuerUnreachable "issuer_unreachable" 503 retry "The issuer's keys could not be fetched"
        "Nothing was imported. The detail says what came of asking its host; try again later.";
    AgreementChanged "agreement_changed" 503 retry "Its issuer is not trusted as a moment ago"
        "Nothing was imported; try again. What counts then is what the trust registry says then.";
    ImportUnreadable "import_unreadable" 422 final "The export cannot be read"
        "Send what the other platform exported, without changing it.";
    ImportBadPublication "import_bad_publication" 422 final "The publication does not hold"
        "Its signature, its time or its sums are wrong; the detail names the checks. Export again.";
    ImportBadPassport "import_bad_passport" 422 final "The passport's signature does not hold"
        "It must be signed by a key of the platform that issued the publication.";
    ImportOtherPassport "import_other_passport" 422 final "Passport and publication do not match"
        "Both must be of one export. The detail says what differs.";
    ImportOtherAgent "import_other_agent" 403 final "The export is another agent's"
        "The passport must name the agent that signs the request, or its key.";
    ImportTaken "import_taken" 409 final "Another agent has imported this record"
        "A record belongs to the first agent that brings it, with all its later exports.";
    ImportRevoked "import_revoked" 403 final "The agent's platform has found fraud"
        "Its benchmark is revoked or its operator under review. Export again when that is over.";
    ImportDisputed "import_disputed" 409 final "Disputes are open at the agent's platform"
        "Export again when they are settled.";
    ImportTooYoung "import_too_young" 422 final "The passport is too young"
        "Its first session must be at least 30 days ago.";
    ImportOwnExport "import_own_export" 422 final "This was exported here"
        "What was counted here counts already.";
    ImportRepeated "import_repeated" 409 final "This export was imported already"
        "Each publication can be brought once, by one agent.";
    ImportOlder "import_older" 409 final "A newer export was imported already"
        "Bring one that was made later.";
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
    AdminRefused "admin_refused" 409 final "The operator's act is not possible now"
        "What only the node's operator may do, over the socket in its folder, was refused. The \
         detail says why.";
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
