#ifndef BLOCKD_PROTOCOL_H
#define BLOCKD_PROTOCOL_H

/* What server and client say to each other, as examples/blockd++/protocol.h has it: an export with the
 * REP, then requests and answers by SEND; data by RDMA of the server. All numbers are big-endian. */

#include <linux/types.h>

#define BLOCKD_MAGIC 0x57424c4b /* "WBLK" */
#define BLOCKD_REQUESTS 16 /* under way at a time */
#define BLOCKD_MOST_BYTES (1UL << 20) /* of a request */
#define BLOCKD_BLOCK_BYTES 4096

struct blockd_export {
	__be32 magic;
	__be32 block_bytes;
	__be64 blocks;
};

enum blockd_operation { BLOCKD_READ = 1, BLOCKD_WRITE = 2 };

struct blockd_request {
	u8 operation;
	u8 reserved[3];
	__be32 tag;
	__be64 first_block;
	__be32 blocks;
	__be32 rkey;
	__be64 address; /* of the client's memory */
};

enum blockd_status { BLOCKD_DONE = 0, BLOCKD_OUT_OF_RANGE = 1, BLOCKD_UNKNOWN_OPERATION = 2 };

struct blockd_answer {
	u8 status;
	u8 reserved[3];
	__be32 tag;
};

#endif
