/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_ADDR_H
#define WEFT_RDMA_IB_ADDR_H

/* Addresses of RDMA devices. */

#include <rdma/ib_verbs.h>

#ifndef MAX_ADDR_LEN
#define MAX_ADDR_LEN 32
#endif

/**
 * struct rdma_dev_addr - What an IP address was resolved to
 */
struct rdma_dev_addr {
	unsigned char src_dev_addr[MAX_ADDR_LEN];
	unsigned char dst_dev_addr[MAX_ADDR_LEN];
	unsigned char broadcast[MAX_ADDR_LEN];
	unsigned short dev_type;
	int bound_dev_if;
	enum ib_gid_type network;
	int hoplimit;
};

#endif
