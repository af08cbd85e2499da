/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_SIGNATURE_H
#define WEFT_RDMA_SIGNATURE_H

/* Protection information (T10-PI) that devices make, check and strip. */

#include <linux/types.h>

enum ib_signature_type { IB_SIG_TYPE_NONE, IB_SIG_TYPE_T10_DIF };
enum ib_t10_dif_bg_type { IB_T10DIF_CRC, IB_T10DIF_CSUM };

/**
 * struct ib_t10_dif_domain - One side's tuples
 * @bg_type: how the guard is computed
 * @pi_interval: bytes of data that one tuple protects
 * @bg: seed of the guard
 * @app_tag: application tag
 * @ref_tag: reference tag of the first block
 * @ref_remap: the reference tag grows by one from block to block
 * @app_escape: an application tag of all ones switches the check of a block off
 * @ref_escape: the same only together with a reference tag of all ones
 * @apptag_check_mask: bits of the application tag that are checked
 */
struct ib_t10_dif_domain {
	enum ib_t10_dif_bg_type bg_type;
	__u16 pi_interval;
	__u16 bg;
	__u16 app_tag;
	__u32 ref_tag;
	bool ref_remap;
	bool app_escape;
	bool ref_escape;
	__u16 apptag_check_mask;
};

struct ib_sig_domain {
	enum ib_signature_type sig_type;
	union {
		struct ib_t10_dif_domain dif;
	} sig;
};

/**
 * struct ib_sig_attrs - What protects a transfer
 * @check_mask: which parts of a tuple are checked
 * @mem: tuples in memory
 * @wire: tuples on the wire
 * @meta_length: bytes of protection information in memory
 */
struct ib_sig_attrs {
	__u8 check_mask;
	struct ib_sig_domain mem;
	struct ib_sig_domain wire;
	int meta_length;
};

enum {
	IB_SIG_CHECK_GUARD = 0xc0,
	IB_SIG_CHECK_APPTAG = 0x30,
	IB_SIG_CHECK_REFTAG = 0x0f
};

enum ib_sig_err_type { IB_SIG_BAD_GUARD, IB_SIG_BAD_REFTAG, IB_SIG_BAD_APPTAG };

struct ib_sig_err {
	enum ib_sig_err_type err_type;
	__u32 expected;
	__u32 actual;
	__u64 sig_err_offset;
	__u32 key;
};

enum ib_mr_status_check { IB_MR_CHECK_SIG_STATUS = 1 };

struct ib_mr_status {
	__u32 fail_status;
	struct ib_sig_err sig_err;
};

#endif
