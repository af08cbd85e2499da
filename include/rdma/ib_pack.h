/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_PACK_H
#define WEFT_RDMA_IB_PACK_H

/* Fields between structures of the host and bytes of the wire, and the headers of UD packets. */

#include <rdma/ib_verbs.h>

WEFT_RDMA_BEGIN

enum {
	IB_LRH_BYTES = 8,
	IB_ETH_BYTES = 14,
	IB_VLAN_BYTES = 4,
	IB_GRH_BYTES = 40,
	IB_IP4_BYTES = 20,
	IB_UDP_BYTES = 8,
	IB_BTH_BYTES = 12,
	IB_DETH_BYTES = 8
};

/**
 * struct ib_field - A field of a structure and its place in a message
 * @struct_offset_bytes: of the structure's member
 * @struct_size_bytes: its size; 0: reserved, which is packed as zero and not unpacked
 * @offset_words: words of 32 bits before it
 * @offset_bits: bits before it in its word, from the most significant one
 * @size_bits: its size; of more than 64 whole bytes
 * @field_name: for logs
 */
struct ib_field {
	size_t struct_offset_bytes;
	size_t struct_size_bytes;
	int offset_words;
	int offset_bits;
	int size_bits;
	const char *field_name;
};

#define RESERVED .field_name = "reserved"

/** ib_pack - Write the fields of a structure into a message; bits of no field stay */
void ib_pack(const struct ib_field *desc, int desc_len, void *structure, void *buf);

/** ib_unpack - Read them from a message */
void ib_unpack(const struct ib_field *desc, int desc_len, void *buf, void *structure);

struct ib_unpacked_lrh {
	__u8 virtual_lane;
	__u8 link_version;
	__u8 service_level;
	__u8 link_next_header;
	__be16 destination_lid;
	__be16 packet_length;
	__be16 source_lid;
};

struct ib_unpacked_grh {
	__u8 ip_version;
	__u8 traffic_class;
	__be32 flow_label;
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	union ib_gid source_gid;
	union ib_gid destination_gid;
};

struct ib_unpacked_eth {
	__u8 dmac_h[4];
	__u8 dmac_l[2];
	__u8 smac_h[2];
	__u8 smac_l[4];
	__be16 type;
};

struct ib_unpacked_vlan {
	__be16 tag;
	__be16 type;
};

struct ib_unpacked_ip4 {
	__u8 ver;
	__u8 hdr_len;
	__u8 tos;
	__be16 tot_len;
	__be16 id;
	__be16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__be16 check;
	__be32 saddr;
	__be32 daddr;
};

struct ib_unpacked_udp {
	__be16 sport;
	__be16 dport;
	__be16 length;
	__be16 csum;
};

struct ib_unpacked_bth {
	__u8 opcode;
	__u8 solicited_event;
	__u8 mig_req;
	__u8 pad_count;
	__u8 transport_header_version;
	__be16 pkey;
	__be32 destination_qpn;
	__u8 ack_req;
	__be32 psn;
};

struct ib_unpacked_deth {
	__be32 qkey;
	__be32 source_qpn;
};

/**
 * struct ib_ud_header - The headers of a UD packet, of which those count that are present
 *
 * Numbers of several bytes are in network order.
 */
struct ib_ud_header {
	int lrh_present;
	struct ib_unpacked_lrh lrh;
	int eth_present;
	struct ib_unpacked_eth eth;
	int vlan_present;
	struct ib_unpacked_vlan vlan;
	int grh_present;
	struct ib_unpacked_grh grh;
	int ipv4_present;
	struct ib_unpacked_ip4 ip4;
	int udp_present;
	struct ib_unpacked_udp udp;
	struct ib_unpacked_bth bth;
	struct ib_unpacked_deth deth;
	int immediate_present;
	__be32 immediate_data;
};

/**
 * ib_ud_header_init - Begin the headers of a packet
 * @payload_bytes: after the headers
 * @lrh_present: an LRH
 * @eth_present: an Ethernet header
 * @vlan_present: a VLAN tag
 * @grh_present: a GRH
 * @ip_version: 4 or 6: an IP header in the place of the GRH; 0: none
 * @udp_present: a UDP header, of IP
 * @immediate_present: immediate data
 * @header: where lengths, next headers, opcode and pad count go; all else is zero
 *
 * -EINVAL: another IP version, or UDP without IP.
 */
int ib_ud_header_init(int payload_bytes, int lrh_present, int eth_present, int vlan_present,
		      int grh_present, int ip_version, int udp_present, int immediate_present,
		      struct ib_ud_header *header);

/** ib_ud_header_pack - Write the headers; how many bytes they have */
int ib_ud_header_pack(struct ib_ud_header *header, void *buf);

/** ib_ud_header_unpack - Read headers that begin with an LRH, from 72 bytes; -EINVAL: they are no UD packet's */
int ib_ud_header_unpack(void *buf, struct ib_ud_header *header);

WEFT_RDMA_END

#endif
