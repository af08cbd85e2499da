#pragma once

// The kernel's side of the iWARP port mapper: an iWARP device's connection manager asks it for the
// real address of each local one, and it asks the daemon over netlink (rdma-core's iwpmd, or
// Weft's own Mapper). The names are the seed's without `iwpm_`. Nothing blocks: a call that asks
// the daemon returns a sequence number, and a Completion with this number follows.
//
// One thread at a time, but for get_nlmsg_seq(). Sockets are behind KernelServices; time comes with
// the calls.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "iwpm/mapping_records.h"
#include "iwpm/requests.h"
#include "wire/iwpm/netlink_messages.h"
#include "wire/netlink/message.h"

namespace weft::iwpm {

/// Netlink as the kernel's side uses it, and the log. A service may call back into handle_message()
/// from inside of a call.
class KernelServices {
 public:
  KernelServices() = default;
  virtual ~KernelServices() = default;
  KernelServices(const KernelServices&) = delete;
  KernelServices& operator=(const KernelServices&) = delete;

  /// To the socket with this netlink address. Refused: there is none; TryAgain: it is full.
  virtual Result<void> unicast(std::uint32_t port, std::vector<std::byte> datagram) = 0;
  /// To all that listen in the group. NotFound: nobody does.
  virtual Result<void> multicast(std::uint32_t group, std::vector<std::byte> datagram) = 0;
  virtual void log(std::string line) = 0;
};

/// How a client stands with the daemon; bits, so that one may ask for several.
inline constexpr std::uint32_t kRegistrationUndefined = 1;
inline constexpr std::uint32_t kRegistrationValid = 2;
inline constexpr std::uint32_t kRegistrationIncomplete = 4;  ///< a new daemon; register again

/// What came of a call that asks the daemon.
struct Started {
  std::uint32_t sequence{};
  /// Otherwise there is nothing to ask: the client is registered already, or goes on unmapped.
  bool completion_follows{};
};

/// The end of a call that asked the daemon.
struct Completion {
  std::uint32_t sequence{};
  std::uint8_t client{};
  wire::iwpm::Operation operation{};
  WaitResult result;
  /// With mapped addresses if the daemon gave them: with result 0, and with RemoteQueryReject,
  /// where the remote one is unmapped.
  ConnectionAddresses addresses;

  [[nodiscard]] bool has_mapping() const {
    return operation != wire::iwpm::Operation::RegisterPid &&
           (result.number == 0 ||
            result.number == static_cast<int>(wire::iwpm::DaemonError::RemoteQueryReject));
  }
};

struct KernelOptions {
  Duration timeout{Duration::seconds(10)};  ///< for the daemon's answer, as Linux
  std::size_t most_requests{4096};          ///< policy
  std::size_t most_remote_infos{65'536};    ///< policy
  std::size_t message_room{wire::iwpm::kMessageRoom};
};

class KernelSide {
 public:
  explicit KernelSide(KernelServices& services, const KernelOptions& options = {});

  /// A client begins and ends. InvalidArgument if it has begun already, or has not. With the last
  /// client all records go; what a client still waits for ends with -EINVAL.
  [[nodiscard]] Result<void> init(std::uint8_t client);
  [[nodiscard]] Result<void> exit(std::uint8_t client);
  [[nodiscard]] unsigned clients() const { return clients_; }

  /// Whether the client is between init and exit.
  [[nodiscard]] bool valid_client(std::uint8_t client) const;
  void set_valid(std::uint8_t client, bool is_valid);
  /// Whether the client's registration is one of these bits.
  [[nodiscard]] bool check_registration(std::uint8_t client, std::uint32_t bits) const;
  void set_registration(std::uint8_t client, std::uint32_t bits);
  [[nodiscard]] std::uint32_t get_registration(std::uint8_t client) const;
  /// Whether a daemon is known.
  [[nodiscard]] bool valid_pid() const { return daemon_ > 0; }
  /// The daemon's netlink address; none while valid_pid() is false.
  [[nodiscard]] std::optional<std::uint32_t> daemon() const;
  /// The version that is spoken with it.
  [[nodiscard]] std::uint16_t abi() const { return abi_; }

  /// A number that no other call returns, until 2^32 later. Safe from any thread.
  std::uint32_t get_nlmsg_seq() { return next_sequence_.fetch_add(1) + 1; }

  /// Asks who the daemon is, by multicast. Without a listener it fails with NotFound, and from then
  /// on the clients go on unmapped until a daemon says hello.
  [[nodiscard]] Result<Started> register_pid(const DeviceInfo& device, std::uint8_t client,
                                             Instant now);
  /// Asks for the mapped address of `addresses.local`.
  [[nodiscard]] Result<Started> add_mapping(const ConnectionAddresses& addresses,
                                            std::uint8_t client, Instant now);
  /// Asks for the mapped addresses of `local` and of `remote`.
  [[nodiscard]] Result<Started> add_and_query_mapping(const ConnectionAddresses& addresses,
                                                      std::uint8_t client, Instant now);
  /// Tells that one user of the mapping is gone; there is no answer.
  [[nodiscard]] Result<void> remove_mapping(const SocketAddress& local, std::uint8_t client);

  [[nodiscard]] Result<void> create_mapinfo(const SocketAddress& local, const SocketAddress& mapped,
                                            std::uint8_t client, std::uint32_t flags);
  [[nodiscard]] Result<void> remove_mapinfo(const SocketAddress& local,
                                            const SocketAddress& mapped) {
    return records_.remove_mapinfo(local, mapped);
  }
  [[nodiscard]] int mapinfo_available() const { return records_.mapinfo_available(); }
  /// Tells the daemon all mappings of the client, then their number. Returns how many were sent.
  /// The number follows the records, since iwpmd compares it with what it has read until then.
  [[nodiscard]] Result<std::size_t> send_mapinfo(std::uint8_t client, std::uint32_t daemon);
  void add_remote_info(const RemoteInfo& info);
  [[nodiscard]] Result<SocketAddress> get_remote_info(const SocketAddress& mapped_local,
                                                      const SocketAddress& mapped_remote,
                                                      std::uint8_t client);
  [[nodiscard]] Result<void> send_hello(std::uint8_t client, std::uint32_t daemon,
                                        std::uint16_t abi);

  /// A message that a program sent to RDMA netlink, for one of the port mapper's clients. `sender`
  /// is the socket's address as the driver knows it; what the header says is not trusted. 0, or a
  /// negative errno.
  int handle_message(const wire::netlink::Message& message, std::uint32_t sender, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const { return requests_.first_deadline(); }
  [[nodiscard]] std::optional<Completion> poll_completion();

  /// Requests that exist.
  [[nodiscard]] std::size_t requests() const { return requests_.size(); }
  [[nodiscard]] const MappingRecords& records() const { return records_; }
  void check_invariants() const;

 private:
  struct Client {
    bool is_valid{};
    std::uint32_t registration{kRegistrationUndefined};
  };
  using Handler = int (KernelSide::*)(const wire::netlink::Message&, std::uint32_t sender);
  struct Callback {
    wire::iwpm::Operation operation{};
    Handler handler{};
  };
  static const std::array<Callback, wire::iwpm::kOperations - 1> kCallbacks;

  static constexpr std::int64_t kNoDaemonYet = -1;
  static constexpr std::int64_t kNoListener = -2;

  /// Fails unless the client may ask the daemon for mappings; false: it goes on unmapped.
  [[nodiscard]] Result<bool> may_map(std::uint8_t client, std::uint32_t flags) const;
  template <class Message>
  [[nodiscard]] Result<Started> ask(const Message& message, std::uint8_t client,
                                    const ConnectionAddresses& addresses, Instant now);
  template <class Message>
  [[nodiscard]] Result<std::vector<std::byte>> form(const Message& message, std::uint8_t client,
                                                    std::uint32_t sequence) const;
  [[nodiscard]] Result<void> send_to_daemon(std::vector<std::byte> datagram);
  [[nodiscard]] NlmsgRequest* find_answered(std::uint32_t sequence, std::uint32_t sender);
  void complete(NlmsgRequest& request, wire::iwpm::DaemonError error);
  void collect(Instant now);

  int register_pid_cb(const wire::netlink::Message& message, std::uint32_t sender);
  int add_mapping_cb(const wire::netlink::Message& message, std::uint32_t sender);
  int add_and_query_mapping_cb(const wire::netlink::Message& message, std::uint32_t sender);
  int remote_info_cb(const wire::netlink::Message& message, std::uint32_t sender);
  int mapping_info_cb(const wire::netlink::Message& message, std::uint32_t sender);
  int ack_mapping_info_cb(const wire::netlink::Message& message, std::uint32_t sender);
  int mapping_error_cb(const wire::netlink::Message& message, std::uint32_t sender);
  int hello_cb(const wire::netlink::Message& message, std::uint32_t sender);

  KernelServices& services_;
  KernelOptions options_;
  std::array<Client, wire::iwpm::kClients> client_{};
  unsigned clients_{};
  std::int64_t daemon_{kNoDaemonYet};
  std::uint16_t abi_{wire::iwpm::kAbiMin};
  std::uint32_t echo_sequence_{};  ///< the last number that the daemon sent
  std::atomic<std::uint32_t> next_sequence_{0};
  MappingRecords records_;
  RequestList requests_;
  std::vector<NlmsgRequest*> waiting_;  ///< each with the waiter's reference
  std::deque<Completion> completions_;
};

/// Names of clients for the log.
[[nodiscard]] std::string_view client_name(std::uint8_t client);

}  // namespace weft::iwpm
