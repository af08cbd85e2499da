// What librdmacm has had since RDMACM_1.4 and 1.5, as a program built against newer headers calls
// it; what Debian 12's headers lack is declared here.
//
//   newer_calls PORT            the server: registers a service with the subnet administration,
//                               takes one connection by it, and echoes one stream of rsockets
//   newer_calls PORT ADDRESS    the client: finds the service by its name, connects to what it
//                               found, resolves a name, and speaks to the echo
//
// Each says "all is well" and ends with 0, or says what is not and ends with 1.

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <infiniband/umad.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

// --- of newer headers

enum { kAddrinfoResolved = 16, kAddrinfoError = 17, kUser = 18 };  // RDMA_CM_EVENT_...
enum { kFromSa = 0x10, kFromDns = 0x20 };                          // RAI_SA, RAI_DNS
int rdma_resolve_addrinfo(struct rdma_cm_id* id, const char* node, const char* service,
                          const struct rdma_addrinfo* hints);
int rdma_query_addrinfo(struct rdma_cm_id* id, struct rdma_addrinfo** info);
int rdma_write_cm_event(struct rdma_cm_id* id, enum rdma_cm_event_type event, int status,
                        uint64_t arg);
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event* event);
int repoll_wait(int epfd, struct epoll_event* events, int maxevents, int timeout);

enum { kWaitLimitSeconds = 60, kSmallWait = 200 * 1000 };
static const char kName[] = "weft.test/echo";
static const uint64_t kServicePrefix = 0x013F0000;  // of the port space IB
static const char kWords[] = "as sockets have it";

static void require(int is_so, const char* what) {
  if (!is_so) {
    fprintf(stderr, "not so: %s (errno: %s)\n", what, strerror(errno));
    exit(1);
  }
}
#define REQUIRE(condition) require(condition, #condition)

// --- services, by MADs to the subnet administration (IBTA vol 1 §15.2.5.14)

enum { kMadBytes = 256, kServiceRecord = 0x31, kSet = 0x02, kDelete = 0x15, kRecordAt = 56 };

/// Registers the service at this host's port, or takes it back.
static void tell_sa(uint8_t method, uint16_t port_number) {
  umad_port_t port;
  REQUIRE(umad_init() == 0);
  REQUIRE(umad_get_port(NULL, 0, &port) == 0);
  const int fd = umad_open_port(NULL, 0);
  REQUIRE(fd >= 0);
  const int agent = umad_register(fd, 3, 2, 0, NULL);
  REQUIRE(agent >= 0);
  void* const umad = calloc(1, umad_size() + kMadBytes);
  uint8_t* const mad = umad_get_mad(umad);
  mad[0] = 1;  // base version, class, class version
  mad[1] = 3;
  mad[2] = 2;
  mad[3] = method;
  mad[15] = 7;  // transaction
  mad[17] = kServiceRecord;
  const uint64_t components = htobe64(1 << 0 | 1 << 1 | 1 << 2 | 1 << 6);  // id, GID, P_Key, name
  memcpy(mad + 48, &components, sizeof components);
  uint8_t* const record = mad + kRecordAt;
  const uint64_t service = htobe64(kServicePrefix | port_number);
  memcpy(record, &service, sizeof service);
  memcpy(record + 8, &port.gid_prefix, 8);
  memcpy(record + 16, &port.port_guid, 8);
  record[24] = record[25] = 0xFF;
  memcpy(record + 48, kName, sizeof kName);
  REQUIRE(umad_set_addr(umad, port.sm_lid, 1, port.sm_sl, 0x80010000) == 0);
  REQUIRE(umad_send(fd, agent, umad, kMadBytes, 1000, 3) == 0);
  int length = kMadBytes;
  REQUIRE(umad_recv(fd, umad, &length, 5000) == agent);
  REQUIRE(umad_status(umad) == 0);
  REQUIRE(mad[4] == 0 && mad[5] == 0);  // status
  free(umad);
  umad_release_port(&port);
  umad_close_port(fd);
}

// --- events

static struct rdma_event_channel* channel;

/// The next event must be this one; the caller acknowledges it.
static struct rdma_cm_event* expect(int type) {
  struct rdma_cm_event* event = NULL;
  REQUIRE(rdma_get_cm_event(channel, &event) == 0);
  if ((int)event->event != type) {
    fprintf(stderr, "event %d (%s), status %d, instead of %d\n", (int)event->event,
            rdma_event_str(event->event), event->status, type);
    exit(1);
  }
  return event;
}

static void pass(int type) {
  struct rdma_cm_event* const event = expect(type);
  REQUIRE(event->status == 0);
  rdma_ack_cm_event(event);
}

static void make_qp(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr attributes = {
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC
  };
  REQUIRE(rdma_create_qp(id, NULL, &attributes) == 0);
}

// --- the echo, over a set of events

static void add(int set, int fd, uint32_t events) {
  struct epoll_event event = {.events = events, .data = {.fd = fd}};
  REQUIRE(repoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void* serve_echo(void* own) {
  const int listener = *(const int*)own;
  const int set = repoll_create(EPOLL_CLOEXEC);
  REQUIRE(set >= 0);
  add(set, listener, EPOLLIN);
  int stream = -1;
  char words[sizeof kWords] = "";
  for (size_t got = 0; got < sizeof words;) {
    struct epoll_event event;
    const int count = repoll_wait(set, &event, 1, kWaitLimitSeconds * 1000);
    REQUIRE(count == 1 && event.events == EPOLLIN);
    if (event.data.fd == listener) {
      stream = raccept(listener, NULL, NULL);
      REQUIRE(stream >= 0);
      add(set, stream, EPOLLIN);
      continue;
    }
    const ssize_t bytes = rrecv(stream, words + got, sizeof words - got, 0);
    REQUIRE(bytes > 0);
    got += (size_t)bytes;
  }
  REQUIRE(rsend(stream, words, sizeof words, 0) == sizeof words);
  REQUIRE(rshutdown(stream, SHUT_RDWR) == 0);
  rclose(stream);
  rclose(listener);
  REQUIRE(rclose(set) == 0);
  return NULL;
}

static void serve(uint16_t port) {
  const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
  int listener = rsocket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(listener >= 0);
  REQUIRE(rbind(listener, (const struct sockaddr*)&any, sizeof any) == 0);
  REQUIRE(rlisten(listener, 4) == 0);
  pthread_t echo;
  REQUIRE(pthread_create(&echo, NULL, serve_echo, &listener) == 0);

  struct rdma_cm_id* id = NULL;
  struct sockaddr_ib here = {.sib_family = AF_IB,
                             .sib_sid = htobe64(kServicePrefix | port),
                             .sib_sid_mask = htobe64(~UINT64_C(0))};
  REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_IB) == 0);
  REQUIRE(rdma_bind_addr(id, (struct sockaddr*)&here) == 0);
  REQUIRE(rdma_listen(id, 4) == 0);
  tell_sa(kSet, port);
  struct rdma_cm_event* event = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  struct rdma_cm_id* const taken = event->id;
  rdma_ack_cm_event(event);
  make_qp(taken);
  REQUIRE(rdma_accept(taken, NULL) == 0);
  pass(RDMA_CM_EVENT_ESTABLISHED);
  event = expect(RDMA_CM_EVENT_DISCONNECTED);
  rdma_ack_cm_event(event);
  tell_sa(kDelete, port);
  rdma_destroy_qp(taken);
  REQUIRE(rdma_destroy_id(taken) == 0);
  REQUIRE(rdma_destroy_id(id) == 0);
  pthread_join(echo, NULL);
}

// --- the client

/// An id that is bound to the first port of the host.
static struct rdma_cm_id* bound_id(void) {
  int count = 0;
  struct ibv_context** const devices = rdma_get_devices(&count);
  REQUIRE(devices != NULL && count > 0);
  struct sockaddr_ib here = {.sib_family = AF_IB};
  REQUIRE(ibv_query_gid(devices[0], 1, 0, (union ibv_gid*)&here.sib_addr) == 0);
  rdma_free_devices(devices);
  struct rdma_cm_id* id = NULL;
  REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_IB) == 0);
  REQUIRE(rdma_bind_addr(id, (struct sockaddr*)&here) == 0);
  return id;
}

/// What SA says of the service, as soon as the server has registered it.
static struct rdma_addrinfo* find_service(struct rdma_cm_id* id, const char* service) {
  const struct rdma_addrinfo hints = {.ai_flags = kFromSa};
  struct rdma_addrinfo* found = NULL;
  for (;;) {
    REQUIRE(rdma_resolve_addrinfo(id, NULL, service, &hints) == 0);
    REQUIRE(rdma_resolve_addrinfo(id, NULL, service, &hints) != 0 && errno == EBUSY);
    struct rdma_cm_event* event = NULL;
    REQUIRE(rdma_get_cm_event(channel, &event) == 0);
    REQUIRE(event->id == id);
    const int type = (int)event->event;
    const int status = event->status;
    rdma_ack_cm_event(event);
    if (type == kAddrinfoResolved) {
      REQUIRE(status == 0);
      REQUIRE(rdma_query_addrinfo(id, &found) == 0);
      return found;
    }
    REQUIRE(type == kAddrinfoError && status == -ENOENT);
    REQUIRE(rdma_query_addrinfo(id, &found) != 0 && errno == ENOENT);
    usleep(kSmallWait);
  }
}

static void connect_to_service(uint16_t port) {
  struct rdma_cm_id* const id = bound_id();
  struct rdma_addrinfo* const found = find_service(id, kName);
  REQUIRE(found->ai_next == NULL && found->ai_family == AF_IB && found->ai_flags == kFromSa);
  const struct sockaddr_ib* const there = (const struct sockaddr_ib*)found->ai_dst_addr;
  REQUIRE(be64toh(there->sib_sid) == (kServicePrefix | port));

  char number[32];  // the same by its ServiceID
  snprintf(number, sizeof number, "0x%llx", (unsigned long long)be64toh(there->sib_sid));
  struct rdma_addrinfo* const again = find_service(id, number);
  REQUIRE(again->ai_dst_len == found->ai_dst_len);
  REQUIRE(memcmp(again->ai_dst_addr, found->ai_dst_addr, found->ai_dst_len) == 0);
  rdma_freeaddrinfo(again);

  const struct rdma_addrinfo hints = {.ai_flags = kFromSa};  // and without an id
  struct rdma_addrinfo* other = NULL;
  REQUIRE(rdma_getaddrinfo(NULL, kName, &hints, &other) == 0);
  REQUIRE(memcmp(other->ai_dst_addr, found->ai_dst_addr, found->ai_dst_len) == 0);
  REQUIRE(other->ai_src_addr != NULL);
  rdma_freeaddrinfo(other);
  REQUIRE(rdma_getaddrinfo(NULL, "weft.test/nobody", &hints, &other) != 0);

  REQUIRE(rdma_resolve_addr(id, NULL, found->ai_dst_addr, 2000) == 0);
  rdma_freeaddrinfo(found);
  pass(RDMA_CM_EVENT_ADDR_RESOLVED);
  REQUIRE(rdma_resolve_route(id, 2000) == 0);
  pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_qp(id);
  struct rdma_conn_param parameters = {.retry_count = 7};
  REQUIRE(rdma_connect(id, &parameters) == 0);
  pass(RDMA_CM_EVENT_ESTABLISHED);
  REQUIRE(rdma_disconnect(id) == 0);
  pass(RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_qp(id);
  REQUIRE(rdma_destroy_id(id) == 0);
}

static void* write_event(void* id) {
  usleep(kSmallWait);
  REQUIRE(rdma_write_cm_event(id, (enum rdma_cm_event_type)kUser, -3, 0x1122334455667788) == 0);
  return NULL;
}

/// While one thread waits for events, another wakes it; and names are resolved.
static void resolve_name(const char* address, const char* port) {
  struct rdma_cm_id* id = NULL;
  REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  pthread_t writer;
  REQUIRE(pthread_create(&writer, NULL, write_event, id) == 0);
  struct rdma_cm_event* const event = expect(kUser);
  uint64_t argument = 0;
  memcpy(&argument, &event->param, sizeof argument);
  REQUIRE(event->id == id && event->status == -3 && argument == 0x1122334455667788);
  rdma_ack_cm_event(event);
  pthread_join(writer, NULL);
  REQUIRE(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0) != 0 && errno == EINVAL);

  const struct rdma_addrinfo hints = {.ai_flags = kFromDns, .ai_port_space = RDMA_PS_TCP};
  struct rdma_addrinfo* found = NULL;
  REQUIRE(rdma_resolve_addrinfo(id, address, port, &hints) == 0);
  pass(kAddrinfoResolved);
  REQUIRE(rdma_query_addrinfo(id, &found) == 0);
  REQUIRE(rdma_resolve_addr(id, NULL, found->ai_dst_addr, 2000) == 0);
  rdma_freeaddrinfo(found);
  pass(RDMA_CM_EVENT_ADDR_RESOLVED);
  REQUIRE(rdma_destroy_id(id) == 0);
}

static void speak_to_echo(const char* address, uint16_t port) {
  struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port)};
  REQUIRE(inet_pton(AF_INET, address, &there.sin_addr) == 1);
  const int stream = rsocket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(stream >= 0);
  REQUIRE(rconnect(stream, (const struct sockaddr*)&there, sizeof there) == 0);
  REQUIRE(rsend(stream, kWords, sizeof kWords, 0) == sizeof kWords);
  char words[sizeof kWords] = "";
  REQUIRE(rrecv(stream, words, sizeof words, MSG_WAITALL) == sizeof words);
  REQUIRE(memcmp(words, kWords, sizeof words) == 0);
  REQUIRE(rclose(stream) == 0);
}

int main(int count, char** arguments) {
  if (count != 2 && count != 3) {
    fprintf(stderr, "usage: newer_calls PORT [ADDRESS]\n");
    return 1;
  }
  alarm(kWaitLimitSeconds);
  const uint16_t port = (uint16_t)atoi(arguments[1]);
  channel = rdma_create_event_channel();
  REQUIRE(channel != NULL);
  if (count == 2) {
    serve(port);
  } else {
    connect_to_service(port);
    resolve_name(arguments[2], arguments[1]);
    speak_to_echo(arguments[2], port);
  }
  rdma_destroy_event_channel(channel);
  printf("all is well\n");
  return 0;
}
