// A client and a server of UCP that find each other by an IP address, as programs over RDMA-CM do.
//
//   ucp_connect -p PORT            the server; ends after its first client
//   ucp_connect -p PORT ADDRESS    the client
//
// The client sends messages of several sizes by tag; the server answers each with every octet
// inverted. The client says "all answers are right" when they were, and only then closes: UCP drops
// what it has received of a peer that is gone.

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { kLargest = 4 << 20, kWaitLimitSeconds = 40 };
static const size_t kSizes[] = {1, 100, 8192, 300001, kLargest};  // short, copied, by rendezvous
enum { kMessages = sizeof kSizes / sizeof kSizes[0] };

static ucp_worker_h worker;
static ucp_conn_request_h asked;  // by a client
static int is_gone;               // the peer

static void fail(const char* what, ucs_status_t status) {
  fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  exit(1);
}

static void check(const char* what, ucs_status_t status) {
  if (status != UCS_OK) {
    fail(what, status);
  }
}

static void progress(void) {
  static time_t deadline;
  if (deadline == 0) {
    deadline = time(NULL) + kWaitLimitSeconds;
  } else if (time(NULL) > deadline) {
    fail("waiting", UCS_ERR_TIMED_OUT);
  }
  if (ucp_worker_progress(worker) == 0) {
    poll(NULL, 0, 0);  // others want the CPU
  }
}

static void complete(const char* what, ucs_status_ptr_t request) {
  if (request == NULL) {
    return;
  }
  if (UCS_PTR_IS_ERR(request)) {
    fail(what, UCS_PTR_STATUS(request));
  }
  ucs_status_t status = UCS_INPROGRESS;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
    progress();
  }
  ucp_request_free(request);
  check(what, status);
}

static const ucp_request_param_t kDefault;

static void send_message(ucp_ep_h peer, uint64_t tag, const uint8_t* data, size_t size) {
  complete("sending", ucp_tag_send_nbx(peer, data, size, tag, &kDefault));
}

static void receive(uint64_t tag, uint8_t* data, size_t size) {
  complete("receiving", ucp_tag_recv_nbx(worker, data, size, tag, UINT64_MAX, &kDefault));
}

static uint8_t octet(size_t message, size_t index) {
  return (uint8_t)(message * 37 + index * 11 + index / 251);
}

static void peer_is_gone(void* context, ucp_ep_h peer, ucs_status_t status) {
  (void)context;
  (void)peer;
  (void)status;
  is_gone = 1;
}

static ucp_ep_params_t peer_parameters(void) {
  const ucp_ep_params_t parameters = {
      .field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler.cb = peer_is_gone,
  };
  return parameters;
}

static void take(ucp_conn_request_h request, void* context) {
  (void)context;
  asked = request;
}

static void serve(const struct sockaddr_in* address, uint8_t* data) {
  const ucp_listener_params_t listening = {
      .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
      .sockaddr = {(const struct sockaddr*)address, sizeof *address},
      .conn_handler.cb = take,
  };
  ucp_listener_h listener = NULL;
  check("listening", ucp_listener_create(worker, &listening, &listener));
  while (asked == NULL) {
    progress();
  }
  ucp_ep_params_t parameters = peer_parameters();
  parameters.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = asked;
  ucp_ep_h peer = NULL;
  check("accepting", ucp_ep_create(worker, &parameters, &peer));
  for (size_t message = 0; message < kMessages; ++message) {
    receive(message, data, kSizes[message]);
    for (size_t i = 0; i < kSizes[message]; ++i) {
      data[i] = (uint8_t)~data[i];
    }
    send_message(peer, message, data, kSizes[message]);
  }
  while (!is_gone) {
    progress();
  }
  const ucp_request_param_t by_force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                        .flags = UCP_EP_CLOSE_FLAG_FORCE};
  complete("closing", ucp_ep_close_nbx(peer, &by_force));
  ucp_listener_destroy(listener);
}

static void ask(const struct sockaddr_in* address, uint8_t* data) {
  ucp_ep_params_t parameters = peer_parameters();
  parameters.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  parameters.sockaddr.addr = (const struct sockaddr*)address;
  parameters.sockaddr.addrlen = sizeof *address;
  ucp_ep_h peer = NULL;
  check("connecting", ucp_ep_create(worker, &parameters, &peer));
  size_t wrong = 0;
  for (size_t message = 0; message < kMessages; ++message) {
    for (size_t i = 0; i < kSizes[message]; ++i) {
      data[i] = octet(message, i);
    }
    send_message(peer, message, data, kSizes[message]);
    memset(data, 0, kSizes[message]);
    receive(message, data, kSizes[message]);
    for (size_t i = 0; i < kSizes[message]; ++i) {
      wrong += data[i] != (uint8_t)~octet(message, i);
    }
  }
  complete("closing", ucp_ep_close_nbx(peer, &kDefault));
  if (wrong != 0) {
    fprintf(stderr, "%zu octets of answers are wrong\n", wrong);
    exit(1);
  }
  printf("all answers are right\n");
}

int main(int argc, char** argv) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  const int is_client = argc == 4;
  if ((argc != 3 && !is_client) || strcmp(argv[1], "-p") != 0 ||
      (is_client && inet_pton(AF_INET, argv[3], &address.sin_addr) != 1)) {
    fprintf(stderr, "usage: ucp_connect -p PORT [ADDRESS]\n");
    return 2;
  }
  address.sin_port = htons((uint16_t)atoi(argv[2]));
  const ucp_params_t features = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
  ucp_context_h context = NULL;
  check("beginning", ucp_init(&features, NULL, &context));
  const ucp_worker_params_t threads = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                       .thread_mode = UCS_THREAD_MODE_SINGLE};
  check("making a worker", ucp_worker_create(context, &threads, &worker));
  uint8_t* const data = malloc(kLargest);
  if (is_client) {
    ask(&address, data);
  } else {
    serve(&address, data);
  }
  free(data);
  ucp_worker_destroy(worker);
  ucp_cleanup(context);
  return 0;
}
