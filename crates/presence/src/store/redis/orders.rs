//! The orders that Redis remembers: one sorted set of them by date, small beside all users.

use bytes::Bytes;
use fred::clients::Client;
use fred::types::scripts::Script;

use super::RedisOptions;
use super::scripts::{decode, run};
use crate::store::notice::{Dated, Order};
use crate::store::{ORDERS_LEN_MAX, StoreError};

/// How orders are written and read.
pub(super) struct Orders {
    record: Script,
    read: Script,
    key: String,
    kept_s: u64,
}

impl Orders {
    pub(super) fn new(options: &RedisOptions) -> Self {
        Self {
            record: Script::from_lua(include_str!("lua/record_orders.lua")),
            read: Script::from_lua(include_str!("lua/read_orders.lua")),
            key: format!("{}:orders", options.prefix),
            kept_s: options.config.orders_kept.as_secs(),
        }
    }

    pub(super) async fn record(
        &self,
        client: &Client,
        orders: &[(Order, Option<u64>)],
    ) -> Result<u64, StoreError> {
        let number = |number: u64| Bytes::from(number.to_string());
        let mut arguments = vec![number(self.kept_s)];
        for (order, from_s) in orders {
            arguments.extend([Bytes::from(order.to_line()), number(from_s.unwrap_or(0))]);
        }
        let answer = run(client, &self.record, self.key.clone(), arguments).await?;
        let date = answer.as_u64();
        date.ok_or_else(|| StoreError::Nonsense("recorded orders have no date".to_owned()))
    }

    pub(super) async fn since(
        &self,
        client: &Client,
        from_s: u64,
        skip: usize,
    ) -> Result<Vec<Dated>, StoreError> {
        let numbers = [from_s, skip as u64, ORDERS_LEN_MAX as u64];
        let arguments = numbers.map(|number| Bytes::from(number.to_string())).to_vec();
        let rows: Vec<(String, u64)> =
            decode(run(client, &self.read, self.key.clone(), arguments).await?)?;
        let dated = |(line, from_s): (String, u64)| {
            let order = Order::parse_line(&line);
            let order = order.ok_or_else(|| StoreError::Nonsense(format!("the order {line:?}")))?;
            Ok(Dated { order, from_s })
        };
        rows.into_iter().map(dated).collect()
    }
}
