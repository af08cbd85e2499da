#pragma once

// A daemon that knows connections and nothing else, for tests of the library: what a script does
// not say otherwise, it answers as if every id were on the one port of this host, and it connects
// ids of the test with each other. It does what rdma_cm_messages.h says of a daemon, and no more.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host/control_socket.h"

namespace weft::testing {

class ScriptedDaemon {
 public:
  /// Listens where programs of that fabric look for a daemon.
  ScriptedDaemon(const std::string& run, const std::string& fabric);
  ~ScriptedDaemon();
  ScriptedDaemon(const ScriptedDaemon&) = delete;
  ScriptedDaemon& operator=(const ScriptedDaemon&) = delete;

  /// Ends every connection, as a daemon that dies does.
  void die();

  /// The LID of the one port, which paths lead to.
  void set_lid(Lid lid) { lid_ = lid; }

  /// Of the services that SA knows, which all have this name.
  void set_services(const std::string& name, std::vector<uabi::RdmaCmService> services) {
    const std::lock_guard guard{lock_};
    service_name_ = name;
    services_ = std::move(services);
  }

  /// What the next request of that kind gets instead of the ordinary answer.
  template <class Request>
  void refuse_next(std::uint32_t error, const std::string& reason) {
    const std::lock_guard guard{lock_};
    refusals_[uabi::Message{Request{}}.index()] = {.error = error, .value = 0, .reason = reason};
  }
  /// The last request of that kind.
  template <class Request>
  [[nodiscard]] std::optional<Request> last() {
    const std::lock_guard guard{lock_};
    const auto found = seen_.find(uabi::Message{Request{}}.index());
    return found == seen_.end() ? std::nullopt : std::optional{found->second.get<Request>()};
  }
  [[nodiscard]] std::size_t channels();
  [[nodiscard]] std::size_t ids();
  /// The id made last; of those that are left.
  [[nodiscard]] std::uint32_t newest_id();

  /// An event of an id, its uid filled in if it has none; of a membership when `uid` is given.
  void raise(std::uint32_t id, uabi::RdmaCmEvent event);

 private:
  struct Channel {
    std::uint32_t number{};
    host::ControlSocket control;
    os::UniqueFd ours;
    os::UniqueFd theirs;  // to take back the octet
    std::deque<std::pair<std::uint32_t, uabi::RdmaCmEvent>>
        events;  // by the id that they count for
  };
  struct Id {
    std::uint32_t channel{};
    std::uint64_t uid{};
    std::uint32_t told{};
    bool is_datagram{};
    bool listens{};
    std::uint32_t peer{};  // 0: not connected
    verbs::ConnectionParameters parameters;
    uabi::RdmaCmIdState state;
  };
  struct Membership {
    std::uint32_t id{};
    std::uint64_t uid{};
    std::uint32_t told{};
  };

  void serve_programs();
  void accept_channel();
  [[nodiscard]] bool serve(Channel& channel);
  [[nodiscard]] uabi::Message answer(Channel& channel, const uabi::Message& request);
  void raise_locked(std::uint32_t id, uabi::RdmaCmEvent event);
  void show(Channel& channel);
  [[nodiscard]] Channel* channel_of(std::uint32_t number);

  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::CreateRdmaCmId& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::DestroyRdmaCmId& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::BindRdmaCmId& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::ResolveRdmaCmAddress& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::ResolveRdmaCmRoute& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::SetRdmaCmPaths& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::QueryRdmaCmId& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::ListenRdmaCm& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::ConnectRdmaCm& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::AcceptRdmaCm& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::RejectRdmaCm& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::DisconnectRdmaCm& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::InitRdmaCmQp& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::JoinRdmaCmGroup& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::LeaveRdmaCmGroup& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::MigrateRdmaCmId& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::ResolveRdmaCmService& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::QueryRdmaCmServices& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::WriteRdmaCmEvent& request);
  [[nodiscard]] uabi::Message handle(Channel& channel, const uabi::GetRdmaCmEvent& request);
  /// Of others it says that it did them.
  [[nodiscard]] uabi::Message handle(Channel&, const auto&) { return uabi::RdmaCmAnswer{}; }

  std::string path_;
  os::UniqueFd listener_;
  os::UniqueFd wake_;  // the thread's end of a pipe
  os::UniqueFd waker_;
  std::mutex lock_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::map<std::uint32_t, Id> ids_;
  std::map<std::uint32_t, Membership> memberships_;
  std::string service_name_;
  std::vector<uabi::RdmaCmService> services_;
  std::map<std::size_t, uabi::RdmaCmAnswer> refusals_;
  std::map<std::size_t, uabi::Message> seen_;
  std::uint32_t last_number_{};
  std::uint16_t last_port_{40'000};
  std::atomic<Lid> lid_{};
  std::thread thread_;
};

}  // namespace weft::testing
