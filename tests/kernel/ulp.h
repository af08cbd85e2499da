#pragma once

/* A user of the kernel's RDMA API in C, for kernel_test.cc: each function does its steps and
 * returns 0, or the line of the first that did not do what the documentation says. */

#define CHECK(claim)               \
  do {                             \
    if (!(claim)) return __LINE__; \
  } while (0)

#ifdef __cplusplus
extern "C" {
#endif

/* Lets the devices work until nothing is left to do; by the test. */
void let_world_run(void);

/* The devices, once check_client() knows them. */
struct ib_device;
extern struct ib_device* devices[2];

/* A PD, a CQ and an RC QP of a device, by the functions of ulp.c. */
struct ib_pd;
struct ib_cq;
struct ib_qp;
struct end {
  struct ib_pd* pd;
  struct ib_cq* cq;
  struct ib_qp* qp;
};
int open_end(struct end* end, struct ib_device* device, unsigned contexts);
int close_end(struct end* end);
unsigned short lid_of(struct ib_device* device);

int check_client(void);
int check_send_and_receive(void);
int check_rdma_context(void);
int check_refusals(void);
int check_datagram_refusals(void);
int check_registration(void);
int check_headers(void);

/* In sa.c: SA answers with a path to LID 7; with a lease of 77 s; that there is none; not at all.
 */
int check_path_query(void);
int check_service_query(void);
int check_no_path(void);
int check_cancelled_query(void);

/* In umem.c. */
int check_pinned_memory(void);
int check_paging_on_demand(void);
/* Where weft_mm_unheard() has no reason. */
int check_changes_are_heard(void);
const char* weft_mm_unheard(void);

/* In calls.c: calls what the octets say, on objects of both devices and with any numbers, and frees
 * what is left. The line is of the first answer that the documentation does not have. */
int make_calls(const unsigned char* octets, unsigned long size);

/* In freed.c: each ends the program where that checks its objects. */
int use_destroyed_qp(void);
int destroy_qp_twice(void);
int use_destroyed_pd(void);
int use_destroyed_cq(void);
int create_qp_on_destroyed_cq(void);
int use_destroyed_mr(void);
int use_destroyed_ah(void);
int use_destroyed_srq(void);
int use_destroyed_wq(void);
int use_destroyed_cm_id(void);
int use_destroyed_rdma_cm_id(void);
int make_and_destroy_again(void);

/* In cm.c. */
int check_connection(void);
int check_rejection(void);
int check_service_resolution(void);
int check_shared_listener(void);
int check_blocked_handlers(void);
int check_ends_in_handlers(void);

#ifdef __cplusplus
}
#endif
