//! The client against a scripted gateway: in-memory sockets and paused time, so that a minute of
//! backoff takes no time and every test runs the same.

mod gateway;
mod reconnect;
mod requests;
mod signs_of_life;
mod view;
