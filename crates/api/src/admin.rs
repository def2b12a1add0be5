//! The operator's door: a socket in the node's own folder, which only the operator may open.

use std::{
    fmt, fs,
    future::Future,
    io,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use skep_market::{Failure, Market};
use skep_wire::admin::AdminRequest;
use tokio::net::UnixListener;

use crate::problem::ApiError;

/// The socket's name in the node's folder.
pub const ADMIN_SOCKET: &str = "admin.sock";
/// The longest request, in bytes.
const BODY_LEN_MAX: usize = 64 * 1024;

/// A bound socket. It is gone with the node.
#[derive(Debug)]
pub struct AdminDoor {
    listener: UnixListener,
    path: PathBuf,
}

impl AdminDoor {
    /// Listens in the folder; a socket that a dead node left is replaced.
    pub fn bind(folder: &Path) -> io::Result<AdminDoor> {
        let path = folder.join(ADMIN_SOCKET);
        if path.exists() {
            if UnixStream::connect(&path).is_ok() {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another node has it"));
            }
            fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        // The folder is closed to others too.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(AdminDoor { listener, path })
    }

    /// Answers until `shutdown` is done.
    pub async fn serve(
        self,
        market: Market,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let app = Router::new()
            .route("/acts", post(act))
            .route("/report", get(report))
            .layer(DefaultBodyLimit::max(BODY_LEN_MAX))
            .with_state(market);
        let served = axum::serve(self.listener, app).with_graceful_shutdown(shutdown).await;
        let _ = fs::remove_file(&self.path);
        served
    }
}

struct Said(Result<Response, ApiError>);

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Said").field(&self.0.as_ref().err()).finish()
    }
}

impl Said {
    fn of<T: serde::Serialize>(result: Result<T, Failure>) -> Said {
        Said(result.map(|value| Json(value).into_response()).map_err(ApiError::from))
    }
}

impl IntoResponse for Said {
    fn into_response(self) -> Response {
        let error = match self.0 {
            Ok(response) => return response,
            Err(error) => error,
        };
        (error.code.status(), Json(error.problem(None))).into_response()
    }
}

async fn act(State(market): State<Market>, Json(request): Json<AdminRequest>) -> Said {
    Said::of(market.admin(request).await)
}

async fn report(State(market): State<Market>) -> Said {
    Said::of(market.qualification_report().await)
}
