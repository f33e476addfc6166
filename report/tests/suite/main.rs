//! The renderers, tried on rows built here: ordinary, all failing, none at all, and hostile.

mod fixture;
mod html;
mod junit;
mod kill;
mod lines;
mod markdown;
mod summary;
mod text;
