// SPDX-License-Identifier: GPL-2.0

#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <linux/crc32.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* Devices. */

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

void *rust_helper_vmalloc_user(unsigned long size)
{
	return vmalloc_user(size);
}

/*
 * Copies of memory that others may change meanwhile. The compiler that sees
 * the caller must not know that this is a copy, or it might read twice.
 */

void rust_helper_copy_bytes(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
}

#define RSIW_CRC_STEP 2048

u32 rust_helper_copy_in_crc32c(void *dst, const void *src, size_t len, u32 crc)
{
	while (len) {
		size_t n = min_t(size_t, len, RSIW_CRC_STEP);

		memcpy(dst, src, n);
		crc = crc32c(crc, dst, n);
		dst += n;
		src += n;
		len -= n;
	}
	return crc;
}

u32 rust_helper_copy_out_crc32c(void *dst, const void *src, size_t len, u32 crc)
{
	while (len) {
		size_t n = min_t(size_t, len, RSIW_CRC_STEP);

		memcpy(dst, src, n);
		crc = crc32c(crc, src, n);
		dst += n;
		src += n;
		len -= n;
	}
	return crc;
}
