//! The book: mdBook's pages, in which links to files outside the book become plain text.
//!
//! Pages also link to files of the repository (ARCHITECTURE.md, sources) that the book does not contain.

use std::path::Path;

use anyhow::{Context, Result};

/// Removes dead links from all pages below `folder`; returns their number.
pub(super) fn unlink_dead(folder: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            count += unlink_dead(&path)?;
        } else if path.extension().is_some_and(|ending| ending == "html") {
            let page = std::fs::read_to_string(&path)?;
            let (page, dead) = unlinked(&page, |target| folder.join(target).exists());
            count += dead;
            if dead > 0 {
                std::fs::write(&path, page)?;
            }
        }
    }
    Ok(count)
}

/// A page without the links whose relative target does not exist; returns their number too.
fn unlinked(page: &str, exists: impl Fn(&str) -> bool) -> (String, usize) {
    const LINK: &str = "<a href=\"";
    let (mut out, mut count, mut rest) = (String::with_capacity(page.len()), 0, page);
    while let Some((before, after)) = rest.split_once(LINK) {
        out.push_str(before);
        let href = after.split('"').next().unwrap_or_default();
        let target = href.split('#').next().unwrap_or_default();
        let dead = !target.is_empty() && !href.contains(':') && !exists(target);
        match after.split_once('>').and_then(|(_, inside)| inside.split_once("</a>")).filter(|_| dead) {
            Some((inside, after)) => {
                out.push_str(inside);
                rest = after;
                count += 1;
            }
            None => {
                out.push_str(LINK);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    (out, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_out_of_the_book_becomes_text() {
        let page = r##"a <a href="here.html#x">b</a> <a href="#y">c</a> <a href="../gone.html"><code>d</code></a> <a href="https://e">f</a>"##;
        let (text, count) = unlinked(page, |target| target == "here.html");
        assert_eq!(count, 1);
        assert_eq!(text, page.replace(r#"<a href="../gone.html"><code>d</code></a>"#, "<code>d</code>"));
    }
}
