//! Figure 8: the transfer time of 100 files, against loss, over a satellite: 256 kbit/s, 125 ms.
//!
//! Published, in words: without loss TCP and naive alike, but 10 KB 10 % slower with naive; 10 KB with loss:
//! MS half of naive's time; 50 KB: MS about 20 % faster than naive; 500 KB and 1 MB: MS 1 to 2 % slower than
//! naive at some losses, for which the paper suspects a patch. Ours, seconds at 0, 1, 3, 6, 10 %: 10 KB: tcp
//! 126 144 168 230 333; naive 197 226 287 414 705; ms 95.0 112 139 199 341; ms-cp 33.6 34.9 42.2 60.6 103;
//! braid 33.1 33.1 34.1 36.0 36.0. 50 KB: tcp 257 286 362 532 941; naive 338 377 469 670 1099; ms 231 283 354
//! 492 874; ms-cp 163 168 204 306 591; braid 162 163 164 165 172. 200 KB: tcp 743 844 1159 1956 3603; naive
//! 823 894 1075 1526 2702; ms 716 776 982 1456 2483; ms-cp 648 666 823 1248 2203; braid 647 649 649 652 663.
//! 500 KB: tcp 1714 1942 2925 5085 10026; naive 1793 1890 2296 3415 6157; ms 1686 1760 2203 3299 6044; ms-cp
//! 1619 1657 2042 3125 5714; braid 1617 1619 1618 1629 1655. 1 MB: tcp 3332 3813 5924 10256 19943; naive 3411
//! 3555 4336 6542 11905; ms 3304 3428 4235 6452 11547; ms-cp 3236 3323 4076 6255 11408; braid 3233 3237 3235
//! 3258 3307. Reason for the differences: as in Figure 7. MS is nowhere slower than naive.

use crate::figure::Figure;
use crate::scenario;

/// The figure: `fig8.toml` describes it.
pub(super) fn figure() -> Figure {
    scenario::built_in("multistream/fig8", include_str!("fig8.toml"))
}
