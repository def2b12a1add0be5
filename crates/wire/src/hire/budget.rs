//! 4.4 and decision 22a: what an agent may spend for somebody else.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Did, Hash32, Timestamp,
    ed25519::{PublicKey, SecretKey, Signature},
    wallet::{WalletKey, WalletSignature, object_hash, recover_message},
};

use super::{SignedError, Usdc, signed::statement_of};

/// The longest time a budget lasts, in seconds: a year.
pub const BUDGET_SECONDS_MAX: u64 = 366 * 24 * 3600;
/// How deep sub-budgets go.
pub const BUDGET_DEPTH_MAX: usize = 8;

/// Who gives a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BudgetIssuer {
    /// The agent's operator, by its Ed25519 key.
    Operator(Did),
    /// An agent that passes a part of its own budget on, by its wallet.
    Agent(AgentId),
}

/// An authorization to spend, shown in hires. Its counter is kept by the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetToken {
    /// Who may spend.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub max_amount_usdc: Usdc,
    pub max_duration_seconds: u64,
    /// Unix time in seconds.
    pub issued_at: i64,
    /// A DID or an agent's address.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issuer: BudgetIssuer,
    /// Makes two budgets of the same size two budgets.
    pub nonce: String,
    /// The id of the budget that this one is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub parent: Option<Hash32>,
    /// A wallet's (`0x…`) or an Ed25519 key's (base64url), as the issuer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl BudgetToken {
    fn statement(&self) -> Result<Value, SignedError> {
        let mut statement = statement_of(self)?;
        let kind = Value::String("skep/budget-token/v1".to_owned());
        if let Some(object) = statement.as_object_mut() {
            object.insert("type".to_owned(), kind);
        }
        Ok(statement)
    }

    /// The budget's name: the Keccak-256 of what is signed.
    pub fn id(&self) -> Result<Hash32, SignedError> {
        object_hash(&self.statement()?).map_err(|e| SignedError::NotSignable(e.to_string()))
    }

    pub fn limit(&self) -> Amount {
        self.max_amount_usdc.amount()
    }

    pub fn starts_at(&self) -> Timestamp {
        Timestamp::from_ms(self.issued_at.saturating_mul(1000))
    }

    pub fn expires_at(&self) -> Timestamp {
        let seconds = self.max_duration_seconds.min(BUDGET_SECONDS_MAX);
        self.starts_at().plus(std::time::Duration::from_secs(seconds))
    }

    pub fn sign_as_agent(&mut self, wallet: &WalletKey) -> Result<(), SignedError> {
        self.issuer = BudgetIssuer::Agent(wallet.address());
        self.signature = Some(wallet.sign_message(self.id()?.as_bytes()).to_string());
        Ok(())
    }

    /// The operator signs the 32 bytes of the id.
    pub fn sign_as_operator(&mut self, key: &SecretKey) -> Result<(), SignedError> {
        self.signature = Some(key.sign(self.id()?.as_bytes()).to_string());
        Ok(())
    }

    /// Checks the issuer's signature. `operator_key`: the current key of the operator that the
    /// token names, if it names one.
    pub fn check(&self, operator_key: Option<&PublicKey>) -> Result<Hash32, SignedError> {
        let id = self.id()?;
        let text = self.signature.as_deref().ok_or(SignedError::Unsigned)?;
        let bad = |e: &dyn ToString| SignedError::BadSignature(e.to_string());
        match &self.issuer {
            BudgetIssuer::Agent(expected) => {
                let signature: WalletSignature = text.parse().map_err(|e| bad(&e))?;
                let signer = recover_message(id.as_bytes(), &signature).map_err(|e| bad(&e))?;
                if signer != *expected {
                    return Err(SignedError::WrongSigner { signer, expected: *expected });
                }
            }
            BudgetIssuer::Operator(_) => {
                let key = operator_key.ok_or_else(|| bad(&"the operator's key is not known"))?;
                let signature: Signature = text.parse().map_err(|e| bad(&e))?;
                key.verify(id.as_bytes(), &signature).map_err(|e| bad(&e))?;
            }
        }
        Ok(id)
    }
}

/// `POST /v1/budgets` makes a budget known; a first payment under it does so too.
/// `GET /v1/budgets/{id}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Budget {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub budget_id: Hash32,
    pub token: BudgetToken,
    /// What may be spent under it in all, without what was passed on.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub limit_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub spent_minor: Amount,
    /// Held in escrows under it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub held_minor: Amount,
    /// Passed on to others.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub delegated_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub left_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub expires_at: Timestamp,
    pub expired: bool,
}
