//! Every fault must show: faulty managers and stores walk beside right ones, and what differs is evidence.

mod library;
mod trial;
mod walk;
