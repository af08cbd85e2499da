/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_PORT_H
#define WEFT_RDMA_VERBS_PORT_H

/* Attributes of devices and ports, the look-ups in their tables, and changes of them. */

#include <rdma/verbs/types.h>

WEFT_RDMA_BEGIN

enum rdma_node_type WEFT_RDMA_ENUM {
	RDMA_NODE_IB_CA = 1,
	RDMA_NODE_IB_SWITCH,
	RDMA_NODE_IB_ROUTER,
	RDMA_NODE_RNIC,
	RDMA_NODE_USNIC,
	RDMA_NODE_USNIC_UDP,
	RDMA_NODE_UNSPECIFIED
};

enum rdma_link_layer WEFT_RDMA_ENUM { IB_LINK_LAYER_UNSPECIFIED, IB_LINK_LAYER_INFINIBAND, IB_LINK_LAYER_ETHERNET };

enum ib_device_cap_flags WEFT_RDMA_ENUM {
	IB_DEVICE_RESIZE_MAX_WR = 1 << 0,
	IB_DEVICE_BAD_PKEY_CNTR = 1 << 1,
	IB_DEVICE_BAD_QKEY_CNTR = 1 << 2,
	IB_DEVICE_RAW_MULTI = 1 << 3,
	IB_DEVICE_AUTO_PATH_MIG = 1 << 4,
	IB_DEVICE_CHANGE_PHY_PORT = 1 << 5,
	IB_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
	IB_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
	IB_DEVICE_SHUTDOWN_PORT = 1 << 8,
	IB_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,
	IB_DEVICE_SYS_IMAGE_GUID = 1 << 11,
	IB_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
	IB_DEVICE_SRQ_RESIZE = 1 << 13,
	IB_DEVICE_N_NOTIFY_CQ = 1 << 14,
	IB_DEVICE_LOCAL_DMA_LKEY = 1 << 15,
	IB_DEVICE_MEM_WINDOW = 1 << 17,
	IB_DEVICE_XRC = 1 << 20,
	IB_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21,
	IB_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
	IB_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
	IB_DEVICE_INTEGRITY_HANDOVER = 1 << 30
};
/* Beyond what an enumeration of C holds. */
#define IB_DEVICE_ON_DEMAND_PAGING (1ULL << 31)
#define IB_DEVICE_SG_GAPS_REG (1ULL << 32)

enum ib_atomic_cap WEFT_RDMA_ENUM { IB_ATOMIC_NONE, IB_ATOMIC_HCA, IB_ATOMIC_GLOB };

/**
 * struct ib_device_attr - What a driver promises of a device
 *
 * Counts, unless a unit is in the name; read when the device is registered (&struct ib_device).
 */
struct ib_device_attr {
	__u64 fw_ver;
	__be64 sys_image_guid;
	__u64 max_mr_size;
	__u64 page_size_cap;
	__u32 vendor_id;
	__u32 vendor_part_id;
	__u32 hw_ver;
	int max_qp;
	int max_qp_wr;
	__u64 device_cap_flags;
	int max_send_sge;
	int max_recv_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	enum ib_atomic_cap atomic_cap;
	enum ib_atomic_cap masked_atomic_cap;
	int max_mw;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	unsigned int max_fast_reg_page_list_len;
	unsigned int max_pi_fast_reg_page_list_len;
	__u16 max_pkeys;
	__u8 local_ca_ack_delay;
	__u32 max_wq_type_rq;
	__u32 max_sgl_rd;
};

enum ib_port_state WEFT_RDMA_ENUM {
	IB_PORT_NOP = 0,
	IB_PORT_DOWN = 1,
	IB_PORT_INIT = 2,
	IB_PORT_ARMED = 3,
	IB_PORT_ACTIVE = 4,
	IB_PORT_ACTIVE_DEFER = 5
};

enum ib_port_cap_flags WEFT_RDMA_ENUM {
	IB_PORT_SM = 1 << 1,
	IB_PORT_NOTICE_SUP = 1 << 2,
	IB_PORT_TRAP_SUP = 1 << 3,
	IB_PORT_AUTO_MIGR_SUP = 1 << 5,
	IB_PORT_SM_DISABLED = 1 << 10,
	IB_PORT_SYS_IMAGE_GUID_SUP = 1 << 11,
	IB_PORT_CM_SUP = 1 << 16,
	IB_PORT_SNMP_TUNNEL_SUP = 1 << 17,
	IB_PORT_REINIT_SUP = 1 << 18,
	IB_PORT_DEVICE_MGMT_SUP = 1 << 19,
	IB_PORT_VENDOR_CLASS_SUP = 1 << 20,
	IB_PORT_DR_NOTICE_SUP = 1 << 21,
	IB_PORT_CAP_MASK_NOTICE_SUP = 1 << 22,
	IB_PORT_CLIENT_REG_SUP = 1 << 25
};

/**
 * struct ib_port_attr - A port as ib_query_port() tells it
 */
struct ib_port_attr {
	__u64 subnet_prefix;
	enum ib_port_state state;
	enum ib_mtu max_mtu;
	enum ib_mtu active_mtu;
	__u32 phys_mtu;
	int gid_tbl_len;
	unsigned int ip_gids : 1;
	__u32 port_cap_flags;
	__u32 max_msg_sz;
	__u32 bad_pkey_cntr;
	__u32 qkey_viol_cntr;
	__u16 pkey_tbl_len;
	__u32 sm_lid;
	__u32 lid;
	__u8 lmc;
	__u8 max_vl_num;
	__u8 sm_sl;
	__u8 subnet_timeout;
	__u8 init_type_reply;
	__u8 active_width;
	__u16 active_speed;
	__u8 phys_state;
	__u16 port_cap_flags2;
};

enum ib_device_modify_flags WEFT_RDMA_ENUM {
	IB_DEVICE_MODIFY_SYS_IMAGE_GUID = 1 << 0,
	IB_DEVICE_MODIFY_NODE_DESC = 1 << 1
};

struct ib_device_modify {
	__u64 sys_image_guid;
	char node_desc[IB_DEVICE_NODE_DESC_MAX];
};

enum ib_port_modify_flags WEFT_RDMA_ENUM {
	IB_PORT_SHUTDOWN = 1,
	IB_PORT_INIT_TYPE = 1 << 2,
	IB_PORT_RESET_QKEY_CNTR = 1 << 3,
	IB_PORT_OPA_MASK_CHG = 1 << 4
};

struct ib_port_modify {
	__u32 set_port_cap_mask;
	__u32 clr_port_cap_mask;
	__u8 init_type;
};

/**
 * ib_query_port - Ask a port's attributes
 * @device: device to ask
 * @port_num: one of its ports
 * @port_attr: where they go
 *
 * -EINVAL: there is no such port.
 */
int ib_query_port(struct ib_device *device, __u8 port_num, struct ib_port_attr *port_attr);

/**
 * ib_query_pkey - Ask one entry of a port's P_Key table
 * @device: device to ask
 * @port_num: one of its ports
 * @index: place in the table
 * @pkey: where the entry goes
 *
 * -EINVAL: there is no such port or entry.
 */
int ib_query_pkey(struct ib_device *device, __u8 port_num, __u16 index, __u16 *pkey);

/**
 * ib_modify_device - Change a device's attributes
 * @device: device to change
 * @device_modify_mask: &enum ib_device_modify_flags; what of @device_modify counts
 * @device_modify: the new values
 *
 * -EOPNOTSUPP: the driver changes none of these.
 */
int ib_modify_device(struct ib_device *device, int device_modify_mask,
		     struct ib_device_modify *device_modify);

/**
 * ib_modify_port - Change a port's attributes
 * @device: device of the port
 * @port_num: one of its ports
 * @port_modify_mask: &enum ib_port_modify_flags
 * @port_modify: capability bits to set and to clear, and the initialisation type
 *
 * -EINVAL: there is no such port; -EOPNOTSUPP: the driver changes none of these.
 */
int ib_modify_port(struct ib_device *device, __u8 port_num, int port_modify_mask,
		   struct ib_port_modify *port_modify);

/**
 * ib_find_gid - Find a GID in the tables of a device's InfiniBand ports
 * @device: device to look at
 * @gid: what to look for
 * @port_num: where the port goes
 * @index: where the place in the port's table goes; may be null
 *
 * -ENOENT: it is in none of them.
 */
int ib_find_gid(struct ib_device *device, union ib_gid *gid, __u8 *port_num, __u16 *index);

/**
 * ib_find_pkey - Find a P_Key in a port's table
 * @device: device of the port
 * @port_num: one of its ports
 * @pkey: what to look for, by its low 15 bits
 * @index: where the place goes; a full member's wins over a limited one's
 *
 * -ENOENT: it is not there.
 */
int ib_find_pkey(struct ib_device *device, __u8 port_num, __u16 pkey, __u16 *index);

/** rdma_query_gid - Read one entry of a port's GID table from the cache */
int rdma_query_gid(struct ib_device *device, __u8 port_num, int index, union ib_gid *gid);

/** rdma_port_get_link_layer - What a port's packets travel on */
enum rdma_link_layer rdma_port_get_link_layer(struct ib_device *device, __u8 port_num);

/* What a port can do (struct ib_port_immutable). */
bool rdma_protocol_ib(const struct ib_device *device, __u8 port_num);
bool rdma_protocol_roce(const struct ib_device *device, __u8 port_num);
bool rdma_protocol_iwarp(const struct ib_device *device, __u8 port_num);
bool rdma_cap_ib_mad(const struct ib_device *device, __u8 port_num);
bool rdma_cap_ib_cm(const struct ib_device *device, __u8 port_num);
bool rdma_cap_iw_cm(const struct ib_device *device, __u8 port_num);
bool rdma_cap_ib_sa(const struct ib_device *device, __u8 port_num);
bool rdma_cap_ib_mcast(const struct ib_device *device, __u8 port_num);
bool rdma_cap_read_inv(struct ib_device *device, __u32 port_num);

WEFT_RDMA_END

#endif
