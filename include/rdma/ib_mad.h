/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_MAD_H
#define WEFT_RDMA_IB_MAD_H

/* Management datagrams: constants of their header (IBTA vol 1 13.4). */

#include <rdma/ib_verbs.h>

WEFT_RDMA_BEGIN

#define IB_MGMT_BASE_VERSION 1

#define IB_MGMT_CLASS_SUBN_LID_ROUTED 0x01
#define IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE 0x81
#define IB_MGMT_CLASS_SUBN_ADM 0x03
#define IB_MGMT_CLASS_PERF_MGMT 0x04
#define IB_MGMT_CLASS_BM 0x05
#define IB_MGMT_CLASS_DEVICE_MGMT 0x06
#define IB_MGMT_CLASS_CM 0x07
#define IB_MGMT_CLASS_SNMP 0x08
#define IB_MGMT_CLASS_DEVICE_ADM 0x10
#define IB_MGMT_CLASS_BOOT_MGMT 0x11
#define IB_MGMT_CLASS_BIS 0x12
#define IB_MGMT_CLASS_CONG_MGMT 0x21

#define IB_MGMT_METHOD_GET 0x01
#define IB_MGMT_METHOD_SET 0x02
#define IB_MGMT_METHOD_GET_RESP 0x81
#define IB_MGMT_METHOD_SEND 0x03
#define IB_MGMT_METHOD_TRAP 0x05
#define IB_MGMT_METHOD_REPORT 0x06
#define IB_MGMT_METHOD_REPORT_RESP 0x86
#define IB_MGMT_METHOD_TRAP_REPRESS 0x07
#define IB_MGMT_METHOD_RESP 0x80

#define IB_MGMT_MAD_HDR 24
#define IB_MGMT_MAD_DATA 232
#define IB_MGMT_RMPP_HDR 36
#define IB_MGMT_SA_HDR 56
#define IB_MGMT_SA_DATA 200
#define IB_MGMT_DEVICE_HDR 64
#define IB_MGMT_DEVICE_DATA 192

struct ib_mad_hdr {
	__u8 base_version;
	__u8 mgmt_class;
	__u8 class_version;
	__u8 method;
	__be16 status;
	__be16 class_specific;
	__be64 tid;
	__be16 attr_id;
	__be16 resv;
	__be32 attr_mod;
};

struct ib_mad {
	struct ib_mad_hdr mad_hdr;
	__u8 data[IB_MGMT_MAD_DATA];
};

WEFT_RDMA_END

#endif
