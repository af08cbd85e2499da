// The table of requests: for each message that a client may send, which connections it may come
// over, what it costs and who handles it. Whoever sends anything else hears why and is dropped.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "daemon/daemon_impl.h"
#include "uabi/directions.h"

namespace weft::daemon {
namespace {

/// Over which connections a message comes.
enum class Sender : std::uint8_t {
  Visitor,         // attached to no host: a program that comes, or the command
  Program,         // attached to a host by Hello
  UmadOpener,      // a visitor without an open port
  UmadPort,        // a visitor with one
  RdmaCmOpener,    // a visitor without a channel
  RdmaCmChannel,   // a visitor with one
  OmniPathOpener,  // a visitor at no Omni-Path port
  OmniPathPort,    // a visitor at one
};

/// What a request costs beyond one message (RequestBudget); policy.
constexpr std::int64_t kNothing = 0;
constexpr std::int64_t kRelay = 4;     // of a message to another program
constexpr std::int64_t kQuestion = 4;  // about a node
constexpr std::int64_t kShare = 8;
constexpr std::int64_t kReport = 16;
constexpr std::int64_t kAnswer = 32;    // in many pieces
constexpr std::int64_t kOpen = 32;      // of a port, a channel, a domain, a program's place
constexpr std::int64_t kPublish = 128;  // a new generation of the tables, for everybody

/// The message that a handler takes, and how many descriptors.
template <class Handler>
struct Signature;
template <class Object, class Request>
struct Signature<void (Object::*)(Client&, Request)> {
  using Message = std::remove_cvref_t<Request>;
  static constexpr std::size_t kDescriptors = 0;
};
template <class Object, class Request>
struct Signature<void (Object::*)(Client&, Request, os::UniqueFd)> {
  using Message = std::remove_cvref_t<Request>;
  static constexpr std::size_t kDescriptors = 1;
};
template <class Object, class Request, std::size_t kCount>
struct Signature<void (Object::*)(Client&, Request, std::array<os::UniqueFd, kCount>)> {
  using Message = std::remove_cvref_t<Request>;
  static constexpr std::size_t kDescriptors = kCount;
};

/// The descriptors of a message, of which there are as many as it must have.
template <std::size_t kCount>
[[nodiscard]] std::array<os::UniqueFd, kCount> take_descriptors(host::Received& received) {
  std::array<os::UniqueFd, kCount> taken;
  std::ranges::move(received.descriptors, taken.begin());
  return taken;
}

}  // namespace

struct Daemon::Impl::Dispatch {
  struct Row {
    std::size_t message{};  // its index in uabi::Message
    Sender sender{};
    std::int64_t cost{};
    void (*handle)(Impl& daemon, Client& client, host::Received& received){};
  };

  template <auto kHandler>
  [[nodiscard]] static consteval Row row(Sender sender, std::int64_t cost) {
    using Handler = Signature<decltype(kHandler)>;
    using Message = typename Handler::Message;
    static_assert(Handler::kDescriptors == uabi::kDescriptorsOf<Message>,
                  "a handler takes the descriptors that come with its message");
    return {.message = uabi::Message::kIndexOf<Message>,
            .sender = sender,
            .cost = cost,
            .handle = [](Impl& daemon, Client& client, host::Received& received) {
              auto& message = *received.message.get_if<Message>();
              if constexpr (Handler::kDescriptors == 0) {
                (daemon.*kHandler)(client, std::move(message));
              } else if constexpr (Handler::kDescriptors == 1) {
                (daemon.*kHandler)(client, message, std::move(received.descriptors.front()));
              } else {
                (daemon.*kHandler)(client, message,
                                   take_descriptors<Handler::kDescriptors>(received));
              }
            }};
  }

  /// True if a client is such a sender.
  [[nodiscard]] static bool is_allowed(Sender sender, const Impl& daemon, Client& client) {
    const bool is_program = client.process.has_value();
    switch (sender) {
      case Sender::Visitor:
        return !is_program;
      case Sender::Program:
        return is_program;
      case Sender::UmadOpener:
        return !is_program && !daemon.open_ports_.contains(&client);
      case Sender::UmadPort:
        return !is_program && daemon.open_ports_.contains(&client);
      case Sender::RdmaCmOpener:
        return !is_program && !daemon.rdma_cm_channels_.contains(&client);
      case Sender::RdmaCmChannel:
        return !is_program && daemon.rdma_cm_channels_.contains(&client);
      case Sender::OmniPathOpener:
        return !is_program && !daemon.omni_path_programs_.contains(&client);
      case Sender::OmniPathPort:
        return !is_program && daemon.omni_path_programs_.contains(&client);
    }
    return false;
  }

  /// What anybody else hears.
  [[nodiscard]] static std::string_view refusal(Sender sender) {
    switch (sender) {
      case Sender::Visitor:
        return "a program that is attached to a host asks for something else";
      case Sender::Program:
        return "it needs a program that Hello has attached to a host";
      case Sender::UmadOpener:
        return "the connection is a program's at its host, or has an open port already";
      case Sender::UmadPort:
        return "it needs a port that OpenUmad has opened on this connection";
      case Sender::RdmaCmOpener:
        return "the connection is a program's at its host, or has a channel already";
      case Sender::RdmaCmChannel:
        return "it needs a channel that OpenRdmaCm has opened on this connection";
      case Sender::OmniPathOpener:
        return "the connection is a program's at its host, or is attached to a port already";
      case Sender::OmniPathPort:
        return "it needs a port that AttachOmniPath has attached on this connection";
    }
    return "";
  }

  static const std::array<Row, uabi::FromClients::kSize> kRows;
  static const std::array<const Row*, uabi::Message::kCount> kRowOf;
};

constexpr std::array<Daemon::Impl::Dispatch::Row, uabi::FromClients::kSize>
    Daemon::Impl::Dispatch::kRows = {
        // a program at its host
        row<&Impl::hello>(Sender::Visitor, kOpen),
        row<&Impl::open_lane>(Sender::Program, kNothing),
        row<&Impl::join_group>(Sender::Program, kPublish),
        row<&Impl::leave_group>(Sender::Program, kPublish),
        row<&Impl::tap_ready>(Sender::Program, kNothing),
        row<&Impl::report_peer>(Sender::Program, kReport),
        row<&Impl::note_bad_keys>(Sender::Program, kReport),
        row<&Impl::communication_established>(Sender::Program, kNothing),
        row<&Impl::open_xrc_domain>(Sender::Program, kOpen),
        row<&Impl::close_xrc_domain>(Sender::Program, kNothing),
        row<&Impl::relay_xrc>(Sender::Program, kRelay),
        row<&Impl::relay_target<uabi::XrcTargetRequest>>(Sender::Program, kRelay),
        row<&Impl::relay_target<uabi::XrcTargetAnswer>>(Sender::Program, kRelay),
        row<&Impl::relay_target<uabi::XrcTargetEvent>>(Sender::Program, kRelay),
        row<&Impl::share_device>(Sender::Program, kShare),
        row<&Impl::import_device>(Sender::Program, kShare),
        row<&Impl::close_device>(Sender::Program, kNothing),
        row<&Impl::relay_object<uabi::ObjectRequest>>(Sender::Program, kRelay),
        row<&Impl::relay_object<uabi::ObjectAnswer>>(Sender::Program, kRelay),
        row<&Impl::take_held_objects>(Sender::Program, kNothing),
        // the command
        row<&Impl::query>(Sender::Visitor, kAnswer),
        row<&Impl::start_capture>(Sender::Visitor, kNothing),
        row<&Impl::add_fault>(Sender::Visitor, kPublish),
        row<&Impl::clear_faults>(Sender::Visitor, kPublish),
        row<&Impl::change_port>(Sender::Visitor, kPublish),
        row<&Impl::change_node>(Sender::Visitor, kPublish),
        row<&Impl::down>(Sender::Visitor, kNothing),
        row<&Impl::ask_namespaces>(Sender::Visitor, kQuestion),
        row<&Impl::keep_fabric_namespaces>(Sender::Visitor, kOpen),
        row<&Impl::keep_host_namespaces>(Sender::Visitor, kOpen),
        // a program that carries IP for its host
        row<&Impl::carry_addresses>(Sender::Visitor, kQuestion),
        row<&Impl::take_neighbor>(Sender::Visitor, kNothing),
        row<&Impl::hold_groups>(Sender::Visitor, kQuestion),
        // a resolver, and who looks for paths where it shows them
        row<&Impl::publish_paths>(Sender::Visitor, kOpen),
        row<&Impl::ask_published_paths>(Sender::Visitor, kQuestion),
        // a program at the MADs of a node
        row<&Impl::list_umad_devices>(Sender::Visitor, kQuestion),
        row<&Impl::describe_umad_device>(Sender::Visitor, kQuestion),
        row<&Impl::find_is_sm>(Sender::Visitor, kOpen),
        row<&Impl::open_umad>(Sender::UmadOpener, kOpen),
        row<&Impl::register_umad_agent>(Sender::UmadPort, kQuestion),
        row<&Impl::unregister_umad_agent>(Sender::UmadPort, kNothing),
        // a program at an Omni-Path port, and who looks for such ports
        row<&Impl::ask_omni_path_ports>(Sender::Visitor, kAnswer),
        row<&Impl::attach_omni_path>(Sender::OmniPathOpener, kOpen),
        row<&Impl::join_omni_path_group>(Sender::OmniPathPort, kPublish),
        row<&Impl::leave_omni_path_group>(Sender::OmniPathPort, kPublish),
        row<&Impl::set_omni_path_capabilities>(Sender::OmniPathPort, kReport),
        // a program at the connections of a host; what its requests cost, the channel says
        row<&Impl::open_rdma_cm>(Sender::RdmaCmOpener, kOpen),
        row<&Impl::on_rdma_cm<uabi::CreateRdmaCmId>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::DestroyRdmaCmId>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::BindRdmaCmId>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::ResolveRdmaCmAddress>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::ResolveRdmaCmRoute>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::QueryRdmaCmId>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::ListenRdmaCm>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::ConnectRdmaCm>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::AcceptRdmaCm>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::RejectRdmaCm>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::DisconnectRdmaCm>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::InitRdmaCmQp>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::SetRdmaCmOption>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::SetRdmaCmPaths>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::NotifyRdmaCm>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::JoinRdmaCmGroup>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::LeaveRdmaCmGroup>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::MigrateRdmaCmId>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::ResolveRdmaCmService>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::QueryRdmaCmServices>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::WriteRdmaCmEvent>>(Sender::RdmaCmChannel, kNothing),
        row<&Impl::on_rdma_cm<uabi::GetRdmaCmEvent>>(Sender::RdmaCmChannel, kNothing),
};

/// By the message's number; null: the daemon's own, which no client may send. That each message of
/// a client has exactly one row is proved here.
constexpr std::array<const Daemon::Impl::Dispatch::Row*, uabi::Message::kCount>
    Daemon::Impl::Dispatch::kRowOf = [] {
      static_assert(uabi::Message::all_kinds([]<class Each>(std::type_identity<Each> /*kind*/) {
                      return std::cmp_equal(
                          std::ranges::count(kRows, uabi::Message::kIndexOf<Each>, &Row::message),
                          uabi::FromClients::kCount<Each>);
                    }),
                    "each message that a client may send has exactly one row, and no other has");
      std::array<const Row*, uabi::Message::kCount> rows{};
      for (const Row& each : kRows) {
        rows[each.message] = &each;
      }
      return rows;
    }();

void Daemon::Impl::handle(Client& client, host::Received received) {
  const Dispatch::Row* const row = Dispatch::kRowOf.at(received.message.index());
  if (row == nullptr || !Dispatch::is_allowed(row->sender, *this, client)) {
    record_offence(client, "messages that it may not send");
    client.refuse(
        fmt::format("a message that this client may not send: {}",
                    row == nullptr ? "it is the daemon's" : Dispatch::refusal(row->sender)));
    return;
  }
  client.charge(row->cost);
  row->handle(*this, client, received);
}

}  // namespace weft::daemon
