//! What callers are told when a score is not shown, or not taken.

use skep_market::{ImportWord, ScoreRefusal};

use crate::code::Code;

pub(super) fn of_score(reason: &ScoreRefusal) -> Code {
    match reason {
        ScoreRefusal::NotPublished { .. } => Code::ScoreNotPublished,
        ScoreRefusal::IssuerUnreachable { .. } => Code::IssuerUnreachable,
        ScoreRefusal::AgreementChanged { .. } => Code::AgreementChanged,
        ScoreRefusal::Import { word, .. } => match word {
            ImportWord::Unreadable => Code::ImportUnreadable,
            ImportWord::BadPublication => Code::ImportBadPublication,
            ImportWord::BadPassport => Code::ImportBadPassport,
            ImportWord::OtherPassport => Code::ImportOtherPassport,
            ImportWord::OtherAgent => Code::ImportOtherAgent,
            ImportWord::Taken => Code::ImportTaken,
            ImportWord::Revoked => Code::ImportRevoked,
            ImportWord::Disputed => Code::ImportDisputed,
            ImportWord::TooYoung => Code::ImportTooYoung,
            ImportWord::OwnExport => Code::ImportOwnExport,
            ImportWord::Repeated => Code::ImportRepeated,
            ImportWord::Older => Code::ImportOlder,
        },
    }
}
