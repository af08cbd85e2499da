/* Connections by the IB CM, between the two devices. */

#include <asm/byteorder.h>
#include <linux/errno.h>
#include <rdma/ib_cm.h>
#include <string.h>

#include "ulp.h"

#define SERVICE 0x1234ULL

/* What an identifier's handler has heard. */
struct log {
  int calls;
  enum ib_cm_event_type last;
  enum ib_cm_state state;
  struct ib_cm_event event;
  char data[16];
  struct ib_cm_id* came; /* of a request */
  int answer;            /* what the handler returns */
};

static int take(struct ib_cm_id* id, struct ib_cm_event* event) {
  struct log* log = id->context;
  log->calls++;
  log->last = event->event;
  log->state = id->state;
  log->event = *event;
  if (event->private_data_len >= sizeof(log->data)) {
    memcpy(log->data, event->private_data, sizeof(log->data));
  }
  if (event->event == IB_CM_REQ_RECEIVED || event->event == IB_CM_SIDR_REQ_RECEIVED) {
    log->came = id;
  }
  return log->answer;
}

static struct sa_path_rec path_to_first(void) {
  struct sa_path_rec path;
  memset(&path, 0, sizeof(path));
  path.rec_type = SA_PATH_REC_TYPE_IB;
  rdma_query_gid(devices[1], 1, 0, &path.sgid);
  rdma_query_gid(devices[0], 1, 0, &path.dgid);
  path.ib.slid = cpu_to_be16(lid_of(devices[1]));
  path.ib.dlid = cpu_to_be16(lid_of(devices[0]));
  path.pkey = cpu_to_be16(0xFFFF);
  path.mtu = IB_MTU_1024;
  path.packet_life_time = 12;
  return path;
}

static int request_service(struct ib_cm_id* id, struct ib_qp* qp, u64 service, char* data) {
  struct sa_path_rec path = path_to_first();
  struct ib_cm_req_param param;
  memset(&param, 0, sizeof(param));
  param.qp = qp;
  param.primary_path = &path;
  param.service_id = service;
  param.private_data = data;
  param.private_data_len = (u8)strlen(data);
  param.responder_resources = 3;
  param.initiator_depth = 2;
  param.remote_cm_response_timeout = 20; /* 4 s: the test lets a second pass between steps */
  param.local_cm_response_timeout = 20;  /* 4 s: the test lets a second pass between steps */
  param.retry_count = 5;
  param.rnr_retry_count = 6;
  param.max_cm_retries = 5;
  param.starting_psn = 0x123;
  return ib_send_cm_req(id, &param);
}

static int request(struct ib_cm_id* id, struct ib_qp* qp, char* data) {
  return request_service(id, qp, SERVICE, data);
}

#define REPLY_PSN 0x456

static int go_to(struct ib_cm_id* id, struct ib_qp* qp, enum ib_qp_state state) {
  struct ib_qp_attr attr;
  int mask;
  int failed;
  memset(&attr, 0, sizeof(attr));
  attr.qp_state = state;
  failed = ib_cm_init_qp_attr(id, &attr, &mask);
  if (id->state == IB_CM_MRA_REQ_SENT) {
    attr.rq_psn = REPLY_PSN; /* which the REP has yet to say */
  }
  return failed ? failed : ib_modify_qp(qp, &attr, mask);
}

static int accept_request(struct ib_cm_id* id, struct ib_qp* qp, char* data) {
  struct ib_cm_req_param param;
  memset(&param, 0, sizeof(param));
  param.qp = qp;
  param.private_data = data;
  param.private_data_len = (u8)strlen(data);
  param.responder_resources = 2;
  param.initiator_depth = 3;
  param.starting_psn = REPLY_PSN;
  return ib_send_cm_rep(id, &param);
}

/* Both sides, once connected. */
struct connection {
  struct log passive, active;
  struct ib_cm_id *listener, *server, *client;
  struct end a, b; /* the server's, the client's */
};

static int open_connection(struct connection* made) {
  memset(made, 0, sizeof(*made));
  CHECK(open_end(&made->a, devices[0], 0) == 0 && open_end(&made->b, devices[1], 0) == 0);
  made->listener = ib_create_cm_id(take, &made->passive);
  made->client = ib_create_cm_id(take, &made->active);
  CHECK(!IS_ERR(made->listener) && !IS_ERR(made->client));
  CHECK(ib_cm_listen(made->listener, SERVICE) == 0);
  CHECK(made->listener->state == IB_CM_LISTEN && made->listener->service_id == SERVICE);
  CHECK(request(made->client, made->b.qp, "hello") == 0);
  CHECK(made->client->state == IB_CM_REQ_SENT);
  let_world_run();
  CHECK(made->passive.calls == 1 && made->passive.last == IB_CM_REQ_RECEIVED);
  made->server = made->passive.came;
  CHECK(made->server != made->listener && made->passive.state == IB_CM_REQ_RCVD);
  return 0;
}

static int close_connection(struct connection* made) {
  CHECK(ib_destroy_cm_id(made->client) == 0);
  CHECK(ib_destroy_cm_id(made->server) == 0);
  CHECK(ib_destroy_cm_id(made->listener) == 0);
  let_world_run();
  return close_end(&made->a) || close_end(&made->b);
}

static int establish(struct connection* made) {
  CHECK(ib_send_cm_mra(made->server, 21, NULL, 0) == 0);
  let_world_run();
  CHECK(made->active.last == IB_CM_MRA_RECEIVED);
  CHECK(made->active.event.param.mra_rcvd.service_timeout == 21);
  CHECK(go_to(made->server, made->a.qp, IB_QPS_INIT) == 0);
  CHECK(go_to(made->server, made->a.qp, IB_QPS_RTR) == 0);
  CHECK(accept_request(made->server, made->a.qp, "welcome") == 0);
  let_world_run();
  CHECK(made->active.last == IB_CM_REP_RECEIVED && strcmp(made->active.data, "welcome") == 0);
  CHECK(made->active.event.param.rep_rcvd.remote_qpn == made->a.qp->qp_num);
  CHECK(made->active.event.param.rep_rcvd.starting_psn == REPLY_PSN);
  CHECK(go_to(made->client, made->b.qp, IB_QPS_INIT) == 0);
  CHECK(go_to(made->client, made->b.qp, IB_QPS_RTR) == 0);
  CHECK(go_to(made->client, made->b.qp, IB_QPS_RTS) == 0);
  CHECK(ib_send_cm_rtu(made->client, "ready", 5) == 0);
  let_world_run();
  CHECK(made->passive.last == IB_CM_RTU_RECEIVED && strcmp(made->passive.data, "ready") == 0);
  CHECK(go_to(made->server, made->a.qp, IB_QPS_RTS) == 0);
  CHECK(made->server->state == IB_CM_ESTABLISHED && made->client->state == IB_CM_ESTABLISHED);
  return 0;
}

static int change_paths(struct connection* made) {
  struct sa_path_rec path = path_to_first();
  CHECK(ib_send_cm_lap(made->client, &path, NULL, 0) == 0);
  let_world_run();
  CHECK(made->active.last == IB_CM_APR_RECEIVED);
  CHECK(made->active.event.param.apr_rcvd.ap_status == IB_CM_APR_IS_CURRENT);
  CHECK(ib_send_cm_apr(made->server, IB_CM_APR_SUCCESS, NULL, 0, NULL, 0) == -EINVAL);
  CHECK(rdma_query_gid(devices[1], 1, 1, &path.sgid) == 0);
  CHECK(rdma_query_gid(devices[0], 1, 1, &path.dgid) == 0);
  CHECK(ib_send_cm_lap(made->client, &path, NULL, 0) == 0);
  CHECK(made->client->state == IB_CM_LAP_SENT);
  let_world_run();
  CHECK(made->passive.last == IB_CM_LAP_RECEIVED && made->passive.state == IB_CM_LAP_RCVD);
  CHECK(ib_send_cm_apr(made->server, IB_CM_APR_SUCCESS, "as said", 7, NULL, 0) == 0);
  let_world_run();
  CHECK(made->active.last == IB_CM_APR_RECEIVED);
  CHECK(made->active.event.param.apr_rcvd.ap_status == IB_CM_APR_SUCCESS);
  CHECK(go_to(made->client, made->b.qp, IB_QPS_RTS) == 0); /* loads it */
  return 0;
}

int check_connection(void) {
  struct connection made;
  struct ib_qp_attr attr;
  struct ib_qp_init_attr init;
  const struct ib_cm_req_event_param* req = &made.passive.event.param.req_rcvd;
  int failed = open_connection(&made);
  if (failed) {
    return failed;
  }
  CHECK(strcmp(made.passive.data, "hello") == 0);
  CHECK(req->listen_id == made.listener && req->device == devices[0] && req->port == 1);
  CHECK(req->remote_qpn == made.b.qp->qp_num && req->starting_psn == 0x123);
  CHECK(req->responder_resources == 2 && req->initiator_depth == 3); /* as this side has it */
  CHECK(req->service_id == SERVICE && req->qp_type == IB_QPT_RC);
  failed = establish(&made);
  if (failed) {
    return failed;
  }
  CHECK(ib_query_qp(made.a.qp, &attr, IB_QP_STATE | IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_SQ_PSN,
                    &init) == 0);
  CHECK(attr.qp_state == IB_QPS_RTS && attr.dest_qp_num == made.b.qp->qp_num);
  CHECK(attr.rq_psn == REPLY_PSN && attr.sq_psn == 0x123); /* each as the other side wants it */
  CHECK(ib_cm_establish(made.server) == -EISCONN);
  CHECK(ib_send_cm_rtu(made.client, NULL, 0) == -EINVAL);
  failed = change_paths(&made);
  if (failed) {
    return failed;
  }
  CHECK(ib_send_cm_dreq(made.client, "bye", 3) == 0);
  let_world_run();
  CHECK(made.passive.last == IB_CM_DREQ_RECEIVED && strcmp(made.passive.data, "bye") == 0);
  CHECK(ib_send_cm_drep(made.server, NULL, 0) == 0);
  CHECK(made.server->state == IB_CM_TIMEWAIT);
  let_world_run();
  CHECK(made.active.last == IB_CM_DREP_RECEIVED || made.active.last == IB_CM_TIMEWAIT_EXIT);
  return close_connection(&made);
}

int check_rejection(void) {
  struct connection made;
  struct log log = {0};
  struct ib_cm_id* lonely;
  char long_data[100];
  int failed = open_connection(&made);
  if (failed) {
    return failed;
  }
  CHECK(ib_send_cm_rej(made.server, IB_CM_REJ_CONSUMER_DEFINED, "why", 3, "not today", 9) == 0);
  let_world_run();
  CHECK(made.active.last == IB_CM_REJ_RECEIVED && strcmp(made.active.data, "not today") == 0);
  CHECK(made.active.event.param.rej_rcvd.reason == IB_CM_REJ_CONSUMER_DEFINED);
  CHECK(ib_cm_migrate_path(made.server) == -EINVAL); /* it has no QP */
  CHECK(ib_destroy_cm_id(made.listener) == 0);
  lonely = ib_create_cm_id(take, &log);
  CHECK(!IS_ERR(lonely));
  memset(long_data, 'x', sizeof(long_data));
  long_data[99] = 0;
  CHECK(request(lonely, made.b.qp, long_data) == -EINVAL);
  CHECK(request(lonely, made.b.qp, "anybody") == 0);
  let_world_run();
  CHECK(log.last == IB_CM_REJ_RECEIVED);
  CHECK(log.event.param.rej_rcvd.reason == IB_CM_REJ_INVALID_SERVICE_ID);
  made.listener = lonely;
  return close_connection(&made);
}

int check_service_resolution(void) {
  struct log service = {0}, asker = {0};
  struct sa_path_rec path = path_to_first();
  struct ib_cm_sidr_req_param ask = {.path = &path, .service_id = SERVICE, .timeout_ms = 100};
  struct ib_cm_sidr_rep_param tell = {.qp_num = 77, .qkey = 0x1234, .status = IB_SIDR_SUCCESS};
  struct ib_cm_id* listener = ib_create_cm_id(take, &service);
  struct ib_cm_id* id = ib_create_cm_id(take, &asker);
  CHECK(!IS_ERR(listener) && !IS_ERR(id));
  CHECK(ib_cm_listen(listener, SERVICE) == 0);
  ask.private_data = "which QP";
  ask.private_data_len = 8;
  ask.pkey = 0xFFFF;
  CHECK(ib_send_cm_sidr_req(id, &ask) == 0);
  CHECK(id->state == IB_CM_SIDR_REQ_SENT);
  let_world_run();
  CHECK(service.last == IB_CM_SIDR_REQ_RECEIVED && strcmp(service.data, "which QP") == 0);
  CHECK(service.event.param.sidr_req_rcvd.listen_id == listener);
  CHECK(service.event.param.sidr_req_rcvd.device == devices[0]);
  CHECK(ib_send_cm_sidr_rep(service.came, &tell) == 0);
  let_world_run();
  CHECK(asker.calls >= 1 && asker.last == IB_CM_SIDR_REP_RECEIVED);
  CHECK(asker.event.param.sidr_rep_rcvd.status == IB_SIDR_SUCCESS);
  CHECK(asker.event.param.sidr_rep_rcvd.qpn == 77);
  CHECK(asker.event.param.sidr_rep_rcvd.qkey == 0x1234);
  CHECK(ib_destroy_cm_id(service.came) == 0);
  CHECK(ib_destroy_cm_id(id) == 0);
  CHECK(ib_destroy_cm_id(listener) == 0);
  return 0;
}

static struct log shared;

static int take_shared(struct ib_cm_id* id, struct ib_cm_event* event) {
  shared.calls++;
  shared.last = event->event;
  shared.came = id->context == NULL ? id : NULL;
  return 1; /* the identifier of the request goes */
}

static int take_otherwise(struct ib_cm_id* id, struct ib_cm_event* event) {
  (void)id;
  (void)event;
  return 0;
}

int check_shared_listener(void) {
  struct log log = {0};
  struct end end;
  struct ib_cm_id *first, *second, *client;
  memset(&shared, 0, sizeof(shared));
  CHECK(open_end(&end, devices[1], 0) == 0);
  first = ib_cm_insert_listen(devices[0], take_shared, cpu_to_be64(SERVICE));
  CHECK(!IS_ERR(first) && first->state == IB_CM_LISTEN && first->service_id == SERVICE);
  second = ib_cm_insert_listen(devices[0], take_shared, cpu_to_be64(SERVICE));
  CHECK(second == first);
  CHECK(PTR_ERR(ib_cm_insert_listen(devices[0], take_otherwise, cpu_to_be64(SERVICE))) == -EINVAL);
  CHECK(ib_destroy_cm_id(first) == 0);
  client = ib_create_cm_id(take, &log);
  CHECK(request(client, end.qp, "x") == 0);
  let_world_run();
  CHECK(shared.calls == 1 && shared.last == IB_CM_REQ_RECEIVED && shared.came != NULL);
  CHECK(log.last == IB_CM_REJ_RECEIVED); /* since the handler wanted it gone */
  CHECK(ib_destroy_cm_id(second) == 0);
  CHECK(request(client, end.qp, "x") == 0);
  let_world_run();
  CHECK(shared.calls == 1);
  CHECK(log.event.param.rej_rcvd.reason == IB_CM_REJ_INVALID_SERVICE_ID);
  CHECK(ib_destroy_cm_id(client) == 0);
  return close_end(&end);
}

/* Of two listeners' handlers that block, while a third identifier's events go on. */
static struct ib_cm_id* blocked[2];
static int blocked_now;
static int blocked_at_most;
static int went_on; /* 0, or the line where the third connection did not */

static int connect_third(void) {
  struct connection made;
  int failed = open_connection(&made);
  if (!failed) {
    failed = establish(&made);
  }
  return failed ? failed : close_connection(&made);
}

static int take_and_block(struct ib_cm_id* id, struct ib_cm_event* event) {
  int rounds;
  if (event->event != IB_CM_REQ_RECEIVED) {
    return 0;
  }
  blocked[blocked_now++] = id;
  for (rounds = 0; blocked_now == 1 && blocked_at_most < 2 && rounds < 5; rounds++) {
    let_world_run();
  }
  if (blocked_now == 2) {
    blocked_at_most = 2;
    went_on = connect_third();
  }
  blocked_now--;
  return 0;
}

int check_blocked_handlers(void) {
  struct log log[2];
  struct end end[2];
  struct ib_cm_id *listener[2], *client[2];
  unsigned i;
  memset(log, 0, sizeof(log));
  memset(blocked, 0, sizeof(blocked));
  blocked_now = blocked_at_most = 0;
  went_on = -1;
  for (i = 0; i < 2; i++) {
    CHECK(open_end(&end[i], devices[1], 0) == 0);
    listener[i] = ib_create_cm_id(take_and_block, NULL);
    client[i] = ib_create_cm_id(take, &log[i]);
    CHECK(!IS_ERR(listener[i]) && !IS_ERR(client[i]));
    CHECK(ib_cm_listen(listener[i], SERVICE + 1 + i) == 0);
    CHECK(request_service(client[i], end[i].qp, SERVICE + 1 + i, "x") == 0);
  }
  let_world_run();
  CHECK(blocked_at_most == 2 && blocked_now == 0); /* both were, at a time */
  if (went_on) {
    return went_on;
  }
  for (i = 0; i < 2; i++) { /* and are of use afterwards */
    CHECK(ib_send_cm_rej(blocked[i], IB_CM_REJ_CONSUMER_DEFINED, NULL, 0, "x", 1) == 0);
    let_world_run();
    CHECK(log[i].last == IB_CM_REJ_RECEIVED);
    CHECK(ib_destroy_cm_id(client[i]) == 0 && ib_destroy_cm_id(blocked[i]) == 0);
    CHECK(ib_destroy_cm_id(listener[i]) == 0 && close_end(&end[i]) == 0);
  }
  return 0;
}

static int rejected;

static int take_and_destroy(struct ib_cm_id* id, struct ib_cm_event* event) {
  rejected += event->event == IB_CM_REJ_RECEIVED;
  return ib_destroy_cm_id(id); /* of itself, which goes when this has returned */
}

int check_ends_in_handlers(void) {
  struct end end;
  struct ib_cm_id* client;
  rejected = 0;
  CHECK(open_end(&end, devices[1], 0) == 0);
  client = ib_create_cm_id(take_and_destroy, NULL);
  CHECK(!IS_ERR(client));
  CHECK(request(client, end.qp, "x") == 0);
  let_world_run();
  CHECK(rejected == 1);
  client = ib_create_cm_id(take_and_destroy, NULL);
  CHECK(request(client, end.qp, "x") == 0);
  CHECK(ib_destroy_cm_id(client) == 0); /* with the REQ on its way */
  let_world_run();
  CHECK(rejected == 1);
  return close_end(&end);
}
