#pragma once

/* A user of the kernel's RDMA API in C, for kernel_test.cc: each function does its steps and
 * returns 0, or the line of the first that did not do what the documentation says. */

#ifdef __cplusplus
extern "C" {
#endif

/* Lets the devices work until nothing is left to do; by the test. */
void let_world_run(void);

int check_client(void);
int check_send_and_receive(void);
int check_rdma_context(void);
int check_refusals(void);
int check_registration(void);
int check_headers(void);

#ifdef __cplusplus
}
#endif
