//! Opening a PostgreSQL database: safe settings, schema, and a role that cannot change the past.

use std::{net::IpAddr, str::FromStr, time::Duration};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod};
use tokio_postgres::{
    Client, Config, GenericClient, NoTls,
    config::{Host, SslMode},
};

use super::describe;
use crate::{error::OpenError, migrate};

/// Nodes that start at the same time migrate one after the other.
const MIGRATION_LOCK: i64 = 0x5_4b45_5001;
/// The role of everything but migrations: it may add to the journal and the log, never change
/// them.
const APP_ROLE: &str = "skep_app";

/// Tables of which rows are only ever added.
const APPEND_ONLY: [&str; 4] = ["transfers", "events", "event_numbers", "score_facts"];

/// Checks the server, migrates, and gives the settings for the pool.
pub(super) async fn prepare(url: &str) -> Result<Config, OpenError> {
    let config = parse(url)?;
    let mut client = connect(&config).await?;
    refuse_unsafe(&client).await?;
    migrate(&mut client).await?;
    Ok(config)
}

/// The settings for the pool of a database whose schema this program knows. Nothing is changed.
pub(super) async fn known(url: &str) -> Result<Config, OpenError> {
    reader(url).await.map(drop)?;
    parse(url)
}

/// A connection that may only look, and only at a schema that this program knows.
pub(super) async fn reader(url: &str) -> Result<Client, OpenError> {
    let client = connect(&parse(url)?).await?;
    client.batch_execute("set default_transaction_read_only = on").await.map_err(failed)?;
    migrate::pending(migrate::POSTGRES, &applied(&client).await?)?;
    Ok(client)
}

fn parse(url: &str) -> Result<Config, OpenError> {
    // The address may hold a password: it is not repeated.
    let mut config = Config::from_str(url).map_err(|error| OpenError::BadUrl {
        url: "postgres://…".to_owned(),
        reason: error.to_string(),
    })?;
    config.application_name("skep").connect_timeout(Duration::from_secs(10));
    refuse_open_network(&config)?;
    Ok(config)
}

/// Connections are not encrypted: beyond this machine that must be said, not assumed.
fn refuse_open_network(config: &Config) -> Result<(), OpenError> {
    let is_near = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        Host::Unix(_) => true,
    };
    if config.get_ssl_mode() == SslMode::Disable || config.get_hosts().iter().all(is_near) {
        return Ok(());
    }
    let reason = "the connection would not be encrypted; add ?sslmode=disable if the network \
                  between is yours alone"
        .to_owned();
    Err(OpenError::BadUrl { url: "postgres://…".to_owned(), reason })
}

async fn connect(config: &Config) -> Result<Client, OpenError> {
    let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
    // Ends with its client; what goes wrong on the way is the answer to the client's question.
    tokio::spawn(connection);
    Ok(client)
}

async fn applied(client: &impl GenericClient) -> Result<Vec<(i64, String)>, OpenError> {
    let sql = "select number, fingerprint from schema_migrations order by number";
    let rows = client.query(sql, &[]).await.map_err(failed)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

pub(super) fn pool(config: Config, size: usize) -> Result<Pool, OpenError> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, NoTls, recycling);
    // A node that hangs in a transaction must not hold its locks for ever. And everything on the
    // way of a write is found by its key: a plan that was made while the tables were empty, and
    // reads them whole, must not outlive that.
    let session = format!(
        "set synchronous_commit = on; set idle_in_transaction_session_timeout = '30s';
         set lock_timeout = '10s'; set statement_timeout = '600s';
         set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
         set plan_cache_mode = force_generic_plan; set jit = off; set role {APP_ROLE}"
    );
    Pool::builder(manager)
        .max_size(size)
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .wait_timeout(Some(Duration::from_secs(10)))
        .create_timeout(Some(Duration::from_secs(10)))
        .post_create(Hook::async_fn(move |client, _| {
            let session = session.clone();
            Box::pin(
                async move { client.batch_execute(&session).await.map_err(HookError::Backend) },
            )
        }))
        .build()
        .map_err(|e| OpenError::Failed(e.to_string()))
}

fn failed(error: tokio_postgres::Error) -> OpenError {
    OpenError::Failed(describe(&error))
}

/// A server that forgets what it acknowledged is no place for money.
async fn refuse_unsafe(client: &Client) -> Result<(), OpenError> {
    for setting in ["fsync", "full_page_writes"] {
        let row = client.query_one("select current_setting($1)", &[&setting]).await;
        let value: String = row.map_err(failed)?.get(0);
        if value != "on" {
            return Err(OpenError::UnsafeSetting { setting: format!("{setting}={value}") });
        }
    }
    Ok(())
}

async fn migrate(client: &mut Client) -> Result<(), OpenError> {
    let tx = client.transaction().await.map_err(failed)?;
    tx.execute("select pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await.map_err(failed)?;
    tx.batch_execute(
        "create table if not exists schema_migrations (
             number bigint primary key, name text not null, fingerprint text not null)",
    )
    .await
    .map_err(failed)?;
    for step in migrate::pending(migrate::POSTGRES, &applied(&tx).await?)? {
        tx.batch_execute(step.sql).await.map_err(failed)?;
        tx.execute(
            "insert into schema_migrations (number, name, fingerprint) values ($1, $2, $3)",
            &[&step.number, &step.name, &step.fingerprint().to_string()],
        )
        .await
        .map_err(failed)?;
        tracing::info!(number = step.number, name = step.name, "the schema was moved on");
    }
    tx.batch_execute(&grants()).await.map_err(failed)?;
    tx.commit().await.map_err(failed)
}

/// Makes the role if it is missing and gives it exactly what the program needs.
fn grants() -> String {
    let append_only = APPEND_ONLY.join(", ");
    format!(
        "do $$ begin
             if not exists (select from pg_roles where rolname = '{APP_ROLE}') then
                 create role {APP_ROLE} nologin;
             end if;
             if not pg_has_role(current_user, '{APP_ROLE}', 'member') then
                 execute format('grant {APP_ROLE} to %I', current_user);
             end if;
         exception when duplicate_object or unique_violation then null;
         end $$;
         grant usage on schema public to {APP_ROLE};
         grant select, insert, update, delete on all tables in schema public to {APP_ROLE};
         grant execute on all functions in schema public to {APP_ROLE};
         revoke update, delete, truncate on {append_only} from {APP_ROLE};
         revoke insert, update, delete on schema_migrations from {APP_ROLE};"
    )
}
