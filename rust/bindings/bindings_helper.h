/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headers that the bindings are generated from, for what the kernel crate's
 * own bindings lack.
 */

/* First, so that enums are never seen through a forward reference. */
#include <linux/hrtimer_types.h>

#include <linux/crc32.h>
#include <linux/dma-buf.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/pid.h>
#include <linux/ratelimit.h>
#include <linux/rtnetlink.h>
#include <linux/sched/stat.h>
#include <linux/skbuff.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/addrconf.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_sysfs.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

#include "../ksock/ksock.h"

/* Constants that bindgen does not find, because of their casts. */
const size_t RUST_CONST_HELPER_NLMSG_DEFAULT_SIZE = NLMSG_DEFAULT_SIZE;
const gfp_t RUST_CONST_HELPER_XA_FLAGS_LOCK_IRQ = XA_FLAGS_LOCK_IRQ;
