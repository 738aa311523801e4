#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# kernel: stock
# pairs: rsiw,*
#
# The script by which a stranger tries the driver on a machine of theirs (tests/netns.sh).

. /tests/lib.sh

load_module rsiw || exit 1
# Without its numbers: this job has its own.
unnumbered() { set -o pipefail && bash /tests/netns.sh | grep -E '^(not )?ok|^#' | sed -E 's/^(not )?ok [0-9]+/\1ok/'; }
told_by "two namespaces of one machine" unnumbered
run "RDMA devices belong to one namespace each" rdma system set netns exclusive
told_by "two namespaces with devices of their own" unnumbered
run "RDMA devices are shared again" rdma system set netns shared
