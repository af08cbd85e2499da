/* Queries of subnet administration. */

#include <asm/byteorder.h>
#include <linux/errno.h>
#include <rdma/ib_sa.h>
#include <string.h>

#include "ulp.h"

struct answer {
  int calls;
  int status;
  u16 dlid;
  u32 lease;
  u64 number;
};

static void take_path(int status, struct sa_path_rec* resp, void* context) {
  struct answer* answer = context;
  answer->calls++;
  answer->status = status;
  if (status == 0) {
    answer->dlid = be16_to_cpu(resp->ib.dlid);
    answer->number = be64_to_cpu(resp->service_id);
  }
}

static void take_service(int status, struct ib_sa_service_rec* resp, void* context) {
  struct answer* answer = context;
  answer->calls++;
  answer->status = status;
  if (status == 0) {
    answer->lease = be32_to_cpu((__force __be32)resp->lease);
    answer->number = be64_to_cpu((__force __be64)resp->data64[1]);
  }
}

static int ask(struct ib_sa_client* client, struct answer* answer, struct ib_sa_query** query) {
  struct sa_path_rec path;
  memset(&path, 0, sizeof(path));
  path.rec_type = SA_PATH_REC_TYPE_IB;
  path.service_id = cpu_to_be64(0x0102030405060708ULL);
  path.dgid.global.interface_id = cpu_to_be64(0x22);
  path.sgid.global.interface_id = cpu_to_be64(0x101);
  path.numb_path = 1;
  return ib_sa_path_rec_get(client, devices[1], 1, &path,
                            IB_SA_PATH_REC_SERVICE_ID | IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID |
                                IB_SA_PATH_REC_NUMB_PATH,
                            500, GFP_KERNEL, take_path, answer, query);
}

int check_path_query(void) {
  struct ib_sa_client client, stranger = {0};
  struct ib_sa_query* query = NULL;
  struct answer answer = {0};
  int id;
  CHECK(ask(&stranger, &answer, &query) == -ENODEV);
  ib_sa_register_client(&client);
  id = ask(&client, &answer, &query);
  CHECK(id > 0 && query != NULL);
  let_world_run();
  CHECK(answer.calls == 1 && answer.status == 0);
  CHECK(answer.dlid == 7 && answer.number == 0x0102030405060708ULL);
  ib_sa_cancel_query(id, query); /* it is over */
  let_world_run();
  CHECK(answer.calls == 1);
  CHECK(ib_sa_path_rec_get(&client, devices[1], 9, &(struct sa_path_rec){0}, 0, 500, GFP_KERNEL,
                           take_path, &answer, &query) == -EINVAL);
  ib_sa_unregister_client(&client);
  CHECK(answer.calls == 1);
  return 0;
}

int check_service_query(void) {
  struct ib_sa_client client;
  struct ib_sa_query* query;
  struct ib_sa_service_rec service;
  struct answer answer = {0};
  memset(&service, 0, sizeof(service));
  service.id = (__force u64)cpu_to_be64(0x1234);
  service.data64[1] = (__force u64)cpu_to_be64(0x55);
  ib_sa_register_client(&client);
  CHECK(ib_sa_service_rec_query(&client, devices[1], 1, IB_MGMT_METHOD_SET, &service,
                                IB_SA_SERVICE_REC_SERVICE_ID, 500, GFP_KERNEL, take_service,
                                &answer, &query) > 0);
  let_world_run();
  CHECK(answer.calls == 1 && answer.status == 0);
  CHECK(answer.lease == 77 && answer.number == 0x55);
  CHECK(ib_sa_service_rec_query(&client, devices[1], 1, IB_MGMT_METHOD_TRAP, &service, 0, 500,
                                GFP_KERNEL, take_service, &answer, &query) == -EINVAL);
  ib_sa_unregister_client(&client);
  CHECK(answer.calls == 1);
  return 0;
}

int check_no_path(void) {
  struct ib_sa_client client;
  struct ib_sa_query* query;
  struct answer answer = {0};
  ib_sa_register_client(&client);
  CHECK(ask(&client, &answer, &query) > 0);
  let_world_run();
  CHECK(answer.calls == 1 && answer.status == -ENETUNREACH);
  ib_sa_unregister_client(&client);
  return 0;
}

int check_cancelled_query(void) {
  struct ib_sa_client client;
  struct ib_sa_query *first, *second;
  struct answer cancelled = {0}, late = {0};
  int id;
  ib_sa_register_client(&client);
  id = ask(&client, &cancelled, &first);
  CHECK(id > 0 && ask(&client, &late, &second) > 0);
  ib_sa_cancel_query(id, second); /* they do not belong together */
  CHECK(cancelled.calls == 0 && late.calls == 0);
  ib_sa_cancel_query(id, first);
  let_world_run();
  CHECK(cancelled.calls == 1 && cancelled.status == -EINTR);
  CHECK(late.calls == 1 && late.status == -ETIMEDOUT);
  ib_sa_unregister_client(&client);
  CHECK(cancelled.calls == 1 && late.calls == 1);
  return 0;
}
