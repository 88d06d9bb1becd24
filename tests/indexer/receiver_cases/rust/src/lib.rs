pub mod store;
pub mod deep;
