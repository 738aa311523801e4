# SPDX-License-Identifier: GPL-2.0
#
# sed -E: DKMS' version of a Debian version. DKMS builds the version that sorts last, and compares strings of
# numbers with zeros in front: to it 0.9.0 is the beginning of 0.9.0~2026..., and comes before it. dpkg has it the
# other way round. A number more says which is which: 0 for what leads to a release, 1 for the release and what
# follows it. So 0.9.0.0.2026... comes before 0.9.0.1, and that before 0.9.0.1+2.
s/^([0-9.]+)~/\1.0./
t
s/^[0-9.]+/&.1/
