//! Certificates and keys for serving.

use std::{path::Path, sync::Arc};

use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsFiles;

/// Why the files give no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} holds no PEM {what}: {reason}")]
    File { path: String, what: &'static str, reason: String },
    #[error("the certificate and the key do not serve: {0}")]
    Refused(#[from] rustls::Error),
}

/// Makes ring the provider of every TLS connection of this process. Twice does no harm.
pub(crate) fn use_ring() {
    let _ = ring::default_provider().install_default();
}

/// Reads certificate and key; speaks TLS 1.2 and 1.3.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let fault = |path: &Path, what, reason: String| TlsError::File {
        path: path.display().to_string(),
        what,
        reason,
    };
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(|found| found.collect::<Result<Vec<_>, _>>())
        .map_err(|error| fault(&files.cert, "certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(fault(&files.cert, "certificate", "the file has none".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| fault(&files.key, "private key", error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
