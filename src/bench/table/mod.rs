//! The papers' table on the machine at hand: every searcher, MPS and PyTorch on the same mixes, in turns of one run.
//!
//! ```text
//! Row (a mix, a task set) --compile--> the best plans of every searcher --Contest: qualify--> the best plan of each searcher
//!                                                                                                   |
//! Followers (one process a network under MPS), Peer (PyTorch, several ways) --------------- Contest: turns
//!                                                                                                   v
//!                                                  Measured --targets--> Verdict --report, picture--> Markdown, JSON, SVG
//! ```
//! The plan that is compared with all others is the one that `platoon plan --measure` keeps: the fastest that qualified. What
//! the table says of it is measured afterwards, on frames that had no part in the choice.
//!
//! | file | idea |
//! |---|---|
//! | [`rows`] | the mixes of the papers, and any other load |
//! | [`contest`] | our plans: bits, the choice, turns with the others |
//! | [`mps`] | networks as processes of their own under MPS |
//! | [`follow`] | such a process |
//! | [`targets`] | what the plan should reach, and whether it does |
//! | [`report`] | the table as Markdown and as JSON |
//! | [`picture`] | as bars |
//! | [`zones`] | frame time over granularity, measured |

pub mod contest;
pub mod follow;
pub mod mps;
pub mod picture;
pub mod report;
pub mod rows;
pub mod targets;
pub mod zones;
