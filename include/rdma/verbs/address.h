/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_ADDRESS_H
#define WEFT_RDMA_VERBS_ADDRESS_H

/* Protection domains, and addresses of destinations. */

#include <rdma/verbs/completion.h>
#include <rdma/verbs/device.h>
#include <rdma/verbs/types.h>

WEFT_RDMA_BEGIN

/* Wants unsafe_global_rkey: whoever learns of it reads and writes all memory. */
enum ib_pd_flags WEFT_RDMA_ENUM { IB_PD_UNSAFE_GLOBAL_RKEY = 0x01 };

/**
 * struct ib_pd - Protection domain
 * @local_dma_lkey: key for local access to all memory
 * @device: whose it is
 * @unsafe_global_rkey: key for everybody's access to all memory, if it was asked for
 */
struct ib_pd {
	__u32 local_dma_lkey;
	__u32 flags;
	struct ib_device *device;
	__u32 unsafe_global_rkey;
	void *weft;
};

/**
 * __ib_alloc_pd - Allocate a protection domain with a key for all local memory
 * @device: device
 * @flags: &enum ib_pd_flags
 * @caller: who allocates it, for the account of objects
 *
 * The PD, or ERR_PTR().
 */
struct ib_pd *__ib_alloc_pd(struct ib_device *device, unsigned int flags, const char *caller);
#define ib_alloc_pd(device, flags) __ib_alloc_pd((device), (flags), KBUILD_MODNAME)

/**
 * ib_dealloc_pd_user - Free a protection domain
 * @pd: without any object; else it stays whole, and the log says so
 * @udata: null, unless it is a program's
 */
void ib_dealloc_pd_user(struct ib_pd *pd, struct ib_udata *udata);

static inline void ib_dealloc_pd(struct ib_pd *pd) {
	ib_dealloc_pd_user(pd, NULL);
}

enum rdma_ah_attr_type WEFT_RDMA_ENUM {
	RDMA_AH_ATTR_TYPE_UNDEFINED,
	RDMA_AH_ATTR_TYPE_IB,
	RDMA_AH_ATTR_TYPE_ROCE,
	RDMA_AH_ATTR_TYPE_OPA
};

enum ib_ah_flags WEFT_RDMA_ENUM { IB_AH_GRH = 1 };

struct ib_grh {
	__be32 version_tclass_flow;
	__be16 paylen;
	__u8 next_hdr;
	__u8 hop_limit;
	union ib_gid sgid;
	union ib_gid dgid;
};

struct ib_global_route {
	const struct ib_gid_attr *sgid_attr;
	union ib_gid dgid;
	__u32 flow_label;
	__u8 sgid_index;
	__u8 hop_limit;
	__u8 traffic_class;
};

struct ib_ah_attr {
	__u16 dlid;
	__u8 src_path_bits;
};

struct roce_ah_attr {
	__u8 dmac[6];
};

/**
 * struct rdma_ah_attr - Attributes of an address handle, and of a connected QP's address
 * @grh: the global route, if @ah_flags has IB_AH_GRH; holds the source GID that it names
 * @sl: service level
 * @static_rate: &enum ib_rate
 * @port_num: the local port
 * @ah_flags: &enum ib_ah_flags
 * @type: which of the union counts
 */
struct rdma_ah_attr {
	struct ib_global_route grh;
	__u8 sl;
	__u8 static_rate;
	__u8 port_num;
	__u8 ah_flags;
	enum rdma_ah_attr_type type;
	union {
		struct ib_ah_attr ib;
		struct roce_ah_attr roce;
	};
};

/**
 * struct ib_ah - Address handle
 */
struct ib_ah {
	struct ib_device *device;
	struct ib_pd *pd;
	const struct ib_gid_attr *sgid_attr;
	enum rdma_ah_attr_type type;
	void *weft;
};

enum rdma_create_ah_flags WEFT_RDMA_ENUM { RDMA_CREATE_AH_SLEEPABLE = 1 << 0 };
enum rdma_destroy_ah_flags WEFT_RDMA_ENUM { RDMA_DESTROY_AH_SLEEPABLE = 1 << 0 };

/** rdma_copy_ah_attr - Copy attributes into ones that hold nothing; the source GID is held by both */
void rdma_copy_ah_attr(struct rdma_ah_attr *dest, const struct rdma_ah_attr *src);

/** rdma_replace_ah_attr - Give up what @old holds, and copy */
void rdma_replace_ah_attr(struct rdma_ah_attr *old, const struct rdma_ah_attr *replacement);

/** rdma_move_ah_attr - Give up what @dest holds, and take over what @src holds, which is empty then */
void rdma_move_ah_attr(struct rdma_ah_attr *dest, struct rdma_ah_attr *src);

/**
 * rdma_move_grh_sgid_attr - Set the global route and take a source GID over
 * @attr: attributes that hold no source GID
 * @dgid: destination
 * @flow_label: of the GRH
 * @hop_limit: of the GRH
 * @traffic_class: of the GRH
 * @sgid_attr: held by the caller; from now on by @attr
 */
void rdma_move_grh_sgid_attr(struct rdma_ah_attr *attr, union ib_gid *dgid, __u32 flow_label,
			     __u8 hop_limit, __u8 traffic_class,
			     const struct ib_gid_attr *sgid_attr);

/** rdma_destroy_ah_attr - Give up the source GID; may be repeated */
void rdma_destroy_ah_attr(struct rdma_ah_attr *ah_attr);

/**
 * rdma_create_ah - Create an address handle
 * @pd: protection domain
 * @ah_attr: where it leads
 * @flags: &enum rdma_create_ah_flags; without any the call does not sleep
 *
 * The handle, or ERR_PTR(): -EINVAL for a port, GID index or rate that is none.
 */
struct ib_ah *rdma_create_ah(struct ib_pd *pd, struct rdma_ah_attr *ah_attr, __u32 flags);

/** rdma_create_user_ah - The same for a program; of RoCE the destination's MAC is looked up first */
struct ib_ah *rdma_create_user_ah(struct ib_pd *pd, struct rdma_ah_attr *ah_attr,
				  struct ib_udata *udata);

int rdma_modify_ah(struct ib_ah *ah, struct rdma_ah_attr *ah_attr);
int rdma_query_ah(struct ib_ah *ah, struct rdma_ah_attr *ah_attr);
int rdma_destroy_ah_user(struct ib_ah *ah, __u32 flags, struct ib_udata *udata);

static inline int rdma_destroy_ah(struct ib_ah *ah, __u32 flags) {
	return rdma_destroy_ah_user(ah, flags, NULL);
}

/** rdma_hold_gid_attr - Hold an entry of a GID table once more */
void rdma_hold_gid_attr(const struct ib_gid_attr *attr);
/** rdma_put_gid_attr - Give up one hold */
void rdma_put_gid_attr(const struct ib_gid_attr *attr);

static inline const struct ib_global_route *rdma_ah_read_grh(const struct rdma_ah_attr *attr) {
	return &attr->grh;
}
static inline struct ib_global_route *rdma_ah_retrieve_grh(struct rdma_ah_attr *attr) {
	return &attr->grh;
}
static inline void rdma_ah_set_dgid_raw(struct rdma_ah_attr *attr, void *dgid) {
	const __u8 *const bytes = (const __u8 *)dgid;
	for (int i = 0; i < 16; ++i) {
		attr->grh.dgid.raw[i] = bytes[i];
	}
}
static inline void rdma_ah_set_grh(struct rdma_ah_attr *attr, union ib_gid *dgid, __u32 flow_label,
				   __u8 sgid_index, __u8 hop_limit, __u8 traffic_class) {
	attr->ah_flags = IB_AH_GRH;
	if (dgid) {
		attr->grh.dgid = *dgid;
	}
	attr->grh.flow_label = flow_label;
	attr->grh.sgid_index = sgid_index;
	attr->grh.hop_limit = hop_limit;
	attr->grh.traffic_class = traffic_class;
	attr->grh.sgid_attr = NULL;
}
static inline void rdma_ah_set_sl(struct rdma_ah_attr *attr, __u8 sl) {
	attr->sl = sl;
}
static inline __u8 rdma_ah_get_sl(const struct rdma_ah_attr *attr) {
	return attr->sl;
}
static inline void rdma_ah_set_port_num(struct rdma_ah_attr *attr, __u32 port_num) {
	attr->port_num = (__u8)port_num;
}
static inline __u32 rdma_ah_get_port_num(const struct rdma_ah_attr *attr) {
	return attr->port_num;
}
static inline void rdma_ah_set_static_rate(struct rdma_ah_attr *attr, __u8 static_rate) {
	attr->static_rate = static_rate;
}
static inline void rdma_ah_set_dlid(struct rdma_ah_attr *attr, __u32 dlid) {
	attr->ib.dlid = (__u16)dlid;
}
static inline __u32 rdma_ah_get_dlid(const struct rdma_ah_attr *attr) {
	return attr->ib.dlid;
}
static inline void rdma_ah_set_path_bits(struct rdma_ah_attr *attr, __u8 src_path_bits) {
	attr->ib.src_path_bits = src_path_bits;
}

WEFT_RDMA_END

#endif
