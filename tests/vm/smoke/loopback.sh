#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 60
#
# One host connects to itself through its own device.

. /tests/lib.sh
plan 4

# The runner chooses the disk (vm-run --debian) and says which.
release() { . /etc/os-release && echo "$PRETTY_NAME" && [ "$VERSION_CODENAME" = "$RSIW_DEBIAN" ]; }
run "the host has the userspace of $RSIW_DEBIAN" release
run "load the driver" load_driver || exit 1
run "ibv_devinfo lists the device" ibv_devinfo -d "$DEV"
peer_bg server rping -s -C 20 -v
server_up 7174
run "rping connects a host to itself" rping -c -a "$ADDR" -C 20 -v
