/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_TYPES_H
#define WEFT_RDMA_VERBS_TYPES_H

/* What all of the API's headers share: the objects, by name, and the types of Linux that they use.
 *
 * The structures have the members that an upper-layer protocol uses. Those called `weft` are the library's own. */

#include <linux/types.h>
#ifndef __cplusplus
/* What sources of the kernel expect to have by this header; the library itself, in C++, needs no more than the types. */
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#endif

/* Between these stands what the library exports. */
#ifdef __cplusplus
#define WEFT_RDMA_BEGIN _Pragma("GCC visibility push(default)") extern "C" {
#define WEFT_RDMA_END      \
	}                  \
	_Pragma("GCC visibility pop")
#else
#define WEFT_RDMA_BEGIN _Pragma("GCC visibility push(default)")
#define WEFT_RDMA_END _Pragma("GCC visibility pop")
#endif

/* An enumeration from C may have any number, which C++ allows where its type is said. */
#ifdef __cplusplus
#define WEFT_RDMA_ENUM : int
#else
#define WEFT_RDMA_ENUM
#endif

#ifndef KBUILD_MODNAME
#define KBUILD_MODNAME "module"
#endif

struct device;
struct mmu_interval_notifier_ops;
struct net;
struct net_device;
struct scatterlist;
struct sockaddr;

struct ib_ah;
struct ib_client;
struct ib_cq;
struct ib_cqe;
struct ib_device;
struct ib_event;
struct ib_gid_attr;
struct ib_mr;
struct ib_mw;
struct ib_pd;
struct ib_qp;
struct ib_recv_wr;
struct ib_rwq_ind_table;
struct ib_send_wr;
struct ib_srq;
struct ib_wc;
struct ib_wq;
struct ib_xrcd;
struct rdma_ah_attr;
struct rdma_cm_id;

#define IB_DEVICE_NAME_MAX 64
#define IB_DEVICE_NODE_DESC_MAX 64
#define IB_FW_VERSION_NAME_MAX 64

#define IB_QP0 0
#define IB_QP1 1
#define IB_QP1_QKEY 0x80010000
#define IB_QP_SET_QKEY 0x80000000
#define IB_MULTICAST_QPN 0xffffff
#define IB_DEFAULT_PKEY_PARTIAL 0x7FFF
#define IB_DEFAULT_PKEY_FULL 0xFFFF
#define IB_DEFAULT_GID_PREFIX 0xfe80000000000000ULL
#define IB_LID_PERMISSIVE 0xFFFF
#define IB_MULTICAST_LID_BASE 0xC000
#define IB_SA_WELL_KNOWN_GUID 0x0200000000000002ULL

union ib_gid {
	__u8 raw[16];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
};

enum ib_gid_type WEFT_RDMA_ENUM {
	IB_GID_TYPE_IB = 0,
	IB_GID_TYPE_ROCE = 1,
	IB_GID_TYPE_ROCE_UDP_ENCAP = 2,
	IB_GID_TYPE_SIZE
};

/**
 * struct ib_gid_attr - An entry of a port's GID table
 * @ndev: of RoCE, the interface that the GID is of
 * @device: whose port it is
 * @gid: the GID
 * @gid_type: how packets with it look
 * @index: its place in the table
 * @port_num: the port
 *
 * Held by whoever was given it, who gives it up by rdma_put_gid_attr().
 */
struct ib_gid_attr {
	struct net_device *ndev;
	struct ib_device *device;
	union ib_gid gid;
	enum ib_gid_type gid_type;
	__u16 index;
	__u8 port_num;
	void *weft;
};

/**
 * struct ib_udata - Bytes that a program's library and a driver exchange beside a call
 * @inbuf: from the program
 * @outbuf: to it
 * @inlen: bytes of @inbuf
 * @outlen: bytes of @outbuf
 *
 * Null for the objects of the kernel's own users.
 */
struct ib_udata {
	const void *inbuf;
	void *outbuf;
	size_t inlen;
	size_t outlen;
};

#define DECLARE_RDMA_OBJ_SIZE(ib_struct) size_t size_##ib_struct

/* Codes of a rate, as PathRecord and the address of a QP have them (IBTA vol 1 15.2.5.16). */
enum ib_rate WEFT_RDMA_ENUM {
	IB_RATE_PORT_CURRENT = 0,
	IB_RATE_2_5_GBPS = 2,
	IB_RATE_5_GBPS = 5,
	IB_RATE_10_GBPS = 3,
	IB_RATE_20_GBPS = 6,
	IB_RATE_30_GBPS = 4,
	IB_RATE_40_GBPS = 7,
	IB_RATE_60_GBPS = 8,
	IB_RATE_80_GBPS = 9,
	IB_RATE_120_GBPS = 10,
	IB_RATE_14_GBPS = 11,
	IB_RATE_56_GBPS = 12,
	IB_RATE_112_GBPS = 13,
	IB_RATE_168_GBPS = 14,
	IB_RATE_25_GBPS = 15,
	IB_RATE_100_GBPS = 16,
	IB_RATE_200_GBPS = 17,
	IB_RATE_300_GBPS = 18,
	IB_RATE_28_GBPS = 19,
	IB_RATE_50_GBPS = 20,
	IB_RATE_400_GBPS = 21,
	IB_RATE_600_GBPS = 22
};

enum ib_mtu WEFT_RDMA_ENUM { IB_MTU_256 = 1, IB_MTU_512 = 2, IB_MTU_1024 = 3, IB_MTU_2048 = 4, IB_MTU_4096 = 5 };

static inline int ib_mtu_enum_to_int(enum ib_mtu mtu) {
	return mtu >= IB_MTU_256 && mtu <= IB_MTU_4096 ? 128 << (int)mtu : -1;
}

static inline enum ib_mtu ib_mtu_int_to_enum(int mtu) {
	return mtu >= 4096   ? IB_MTU_4096
	       : mtu >= 2048 ? IB_MTU_2048
	       : mtu >= 1024 ? IB_MTU_1024
	       : mtu >= 512  ? IB_MTU_512
			     : IB_MTU_256;
}

#endif
