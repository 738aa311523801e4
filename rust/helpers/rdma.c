// SPDX-License-Identifier: GPL-2.0

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/scatterlist.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>
#include <net/netlink.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

/*
 * Identifiers of iw_cm, which the driver keeps after its consumers have gone,
 * refer to functions of that module. It stays as long as this one, which needs
 * a symbol of it.
 */
static const void *const rust_rdma_needs_iw_cm __used = iwcm_reject_msg;

/* Buffers that drivers share. */

void rust_helper_rdma_dma_buf_lock(struct dma_buf *buf)
{
	dma_resv_lock(buf->resv, NULL);
}

void rust_helper_rdma_dma_buf_unlock(struct dma_buf *buf)
{
	dma_resv_unlock(buf->resv);
}

/* Devices. */

struct ib_device *rust_helper_rdma_device_to_ibdev(struct device *device)
{
	return rdma_device_to_ibdev(device);
}

bool rust_helper_ib_device_try_get(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

void rust_helper_ib_device_get_ref(struct ib_device *dev)
{
	get_device(&dev->dev);
}

void rust_helper_ib_device_put_ref(struct ib_device *dev)
{
	put_device(&dev->dev);
}

struct ib_device *rust_helper_ib_alloc_device_net(size_t size, struct net_device *ndev)
{
	return _ib_alloc_device(size, dev_net(ndev));
}

void rust_helper_ib_mark_name_assigned_by_user(struct ib_device *dev)
{
	ib_mark_name_assigned_by_user(dev);
}

/* Requests from user space. */

struct ib_ucontext *rust_helper_rdma_udata_ucontext(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

struct ib_udata *rust_helper_uverbs_bundle_udata(struct uverbs_attr_bundle *attrs)
{
	return &attrs->driver_udata;
}

int rust_helper_ib_no_udata_io(struct ib_udata *udata)
{
	return ib_no_udata_io(udata);
}

u64 rust_helper_rdma_user_mmap_get_offset(const struct rdma_user_mmap_entry *entry)
{
	return rdma_user_mmap_get_offset(entry);
}

/* Memory. */

struct ib_umem *rust_helper_ib_umem_get_va(struct ib_device *dev, unsigned long addr,
					   size_t size, int access)
{
	return ib_umem_get_va(dev, addr, size, access);
}

void *rust_helper_sg_virt(struct scatterlist *sg)
{
	return sg_virt(sg);
}

/* Of an element that is mapped for DMA. */

u64 rust_helper_rdma_sg_address(struct scatterlist *sg)
{
	return sg_dma_address(sg);
}

unsigned int rust_helper_rdma_sg_len(struct scatterlist *sg)
{
	return sg_dma_len(sg);
}

/*
 * Allocates a page of a ring. A process is charged for its page. If there is no
 * memory it gets an error: no process is killed and nothing is logged. A
 * process that is being killed gets no page. The kernel waits for a page as it
 * does for others of its own.
 */
struct page *rust_helper_rdma_alloc_ring_page(bool process)
{
	if (!process)
		return alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (fatal_signal_pending(current))
		return NULL;
	return alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
}

void rust_helper_rdma_free_page(struct page *page)
{
	__free_page(page);
}

void *rust_helper_rdma_page_address(struct page *page)
{
	return page_address(page);
}

/* As remap_vmalloc_range() does. */
int rust_helper_rdma_map_page(struct vm_area_struct *vma, struct page *page)
{
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	return vm_insert_page(vma, vma->vm_start, page);
}

/* vfree() frees pages and array; remap_vmalloc_range() takes the mapping. */
void *rust_helper_rdma_vmap_user(struct page **pages, unsigned int count)
{
	return vmap(pages, count, VM_MAP | VM_MAP_PUT_PAGES | VM_USERMAP, PAGE_KERNEL);
}

/* Network devices. */

void rust_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

void rust_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

void rust_helper_netdev_name_bytes(const struct net_device *dev, u8 *name)
{
	memcpy(name, dev->name, IFNAMSIZ);
}

u8 rust_helper_netdev_copy_addr(const struct net_device *dev, u8 *addr)
{
	u8 len = min_t(u8, dev->addr_len, MAX_ADDR_LEN);

	memcpy(addr, dev->dev_addr, len);
	return len;
}

int rust_helper_netdev_ifindex(const struct net_device *dev)
{
	return READ_ONCE(dev->ifindex);
}

u32 rust_helper_netdev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

/* 0 if there is no limit. */
u32 rust_helper_netdev_max_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->max_mtu);
}

u16 rust_helper_netdev_type(const struct net_device *dev)
{
	return dev->type;
}

bool rust_helper_netdev_is_vlan(const struct net_device *dev)
{
	return is_vlan_dev(dev);
}

bool rust_helper_netdev_is_registered(const struct net_device *dev)
{
	return READ_ONCE(dev->reg_state) == NETREG_REGISTERED;
}

bool rust_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

bool rust_helper_netif_carrier_ok(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

struct net_device *rust_helper_netdev_notifier_info_to_dev(void *info)
{
	return netdev_notifier_info_to_dev(info);
}

/* Netlink: the driver's own attributes in an object's description. */

struct nlattr *rust_helper_rdma_details_start(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

void rust_helper_rdma_details_end(struct sk_buff *msg, struct nlattr *nest)
{
	nla_nest_end(msg, nest);
}

void rust_helper_rdma_details_cancel(struct sk_buff *msg, struct nlattr *nest)
{
	nla_nest_cancel(msg, nest);
}

/*
 * The version of a device's driver as a firmware's: in text, if there is room for
 * IB_FW_VERSION_NAME_MAX characters, and as the number that libraries take apart.
 * A module without a version has an empty one, and 0.
 */
u64 rust_helper_rdma_module_version(const struct ib_device *dev, char *text)
{
	unsigned short major = 0, minor = 0, patch = 0;
	const char *version = "";

#ifdef CONFIG_MODULES
	if (dev->ops.owner && dev->ops.owner->version)
		version = dev->ops.owner->version;
#endif
	if (text)
		strscpy(text, version, IB_FW_VERSION_NAME_MAX);
	if (sscanf(version, "%hu.%hu.%hu", &major, &minor, &patch) < 1)
		return 0;
	return (u64)major << 32 | (u32)minor << 16 | patch;
}

/*
 * The index of the interface that has a GID; -EADDRNOTAVAIL unless that interface
 * and the current task are both in the namespace of the port's interface. The
 * caller keeps the entry of the table of GIDs.
 *
 * A device in shared mode is open to processes of all namespaces, and its table
 * has GIDs of interfaces that are on top of the port's, but elsewhere.
 */
int rust_helper_rdma_gid_ifindex(const struct ib_gid_attr *gid, const struct net_device *port)
{
	const struct net_device *ndev;
	int ifindex = -EADDRNOTAVAIL;
	const struct net *net;

	rcu_read_lock();
	ndev = rcu_dereference(gid->ndev);
	net = dev_net_rcu(port);
	if (ndev && net_eq(dev_net_rcu(ndev), net) &&
	    current->nsproxy && net_eq(current->nsproxy->net_ns, net))
		ifindex = READ_ONCE(ndev->ifindex);
	rcu_read_unlock();
	return ifindex;
}

/* The connection manager */

/*
 * The RDMA CM's id behind an id to connect or listen with, which the consumer
 * must not have destroyed.
 *
 * iwcm's id does not tell whose it is, but its context does: the RDMA CM is
 * iwcm's only consumer, and the context points to its structure, which begins
 * with the rdma_cm_id (struct rdma_id_private). NULL if that does not look like
 * one.
 */
static const struct rdma_cm_id *consumer_of(const struct iw_cm_id *id)
{
	const struct rdma_cm_id *cm = id->context;

	if (cm && cm->device == id->device && cm->ps == RDMA_PS_TCP)
		return cm;
	return NULL;
}

/*
 * Whether the consumer of an id is in the namespace of the device's interface,
 * and may use the device there; as for consumer_of(). A consumer that is not
 * known is taken to be in the initial namespace.
 */
bool rust_helper_iw_cm_id_is_at(const struct iw_cm_id *id,
				const struct net_device *ndev)
{
	const struct rdma_cm_id *cm = consumer_of(id);
	const struct net *net = &init_net;
	bool is_at;

	if (cm)
		net = cm->route.addr.dev_addr.net;
	rcu_read_lock();
	is_at = net_eq(net, dev_net_rcu(ndev));
	rcu_read_unlock();
	return is_at && rdma_dev_access_netns(id->device, net);
}

/*
 * The index of the interface that the RDMA CM has found for the local address of
 * an id, in the consumer's namespace; 0 if it has looked for none. As for
 * consumer_of().
 */
int rust_helper_iw_cm_id_ifindex(const struct iw_cm_id *id)
{
	const struct rdma_cm_id *cm = consumer_of(id);

	return cm ? READ_ONCE(cm->route.addr.dev_addr.bound_dev_if) : 0;
}
