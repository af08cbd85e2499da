#pragma once

/* What a connection manager tells ids that C has made. */

#ifdef __cplusplus
extern "C" {
#endif

struct rdma_cm_script {
  void (*tell)(unsigned id, int event); /* the id that was made as the so-manyth */
  unsigned (*living)(void);             /* ids that there are */
};

int check_rdma_cm_handlers(const struct rdma_cm_script* script);

#ifdef __cplusplus
}
#endif
