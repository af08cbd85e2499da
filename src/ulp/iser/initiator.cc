#include "ulp/iser/initiator.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "core/device.h"

namespace weft::iser {

Initiator::Initiator(core::Environment& environment, MakeCmId make_cm_id)
    : environment_(environment),
      make_cm_id_(std::move(make_cm_id)),
      release_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { release(); }) {}

Initiator::~Initiator() {
  const auto entries = std::exchange(entries_, {});  // release() leaves these alone
  for (const auto& entry : entries) {
    entry->connection->unbind();
    entry->connection->terminate("the initiator ends");
  }
  release_work_.cancel_and_wait();
}

Result<EndpointId> Initiator::connect_endpoint(std::string_view address,
                                               const ConnectionOptions& options, bool waits) {
  auto entry = std::make_unique<Entry>();
  entry->endpoint = next_endpoint_++;
  entry->connection =
      std::make_unique<Connection>(environment_, options, [this] { release_work_.queue(); });
  Connection& connection = *entry->connection;
  const EndpointId endpoint = entry->endpoint;
  auto id = make_cm_id_(connection);
  if (!id) {
    return std::unexpected(id.error());
  }
  if (auto begun = connection.connect(*std::move(id), address); !begun) {
    return std::unexpected(begun.error());
  }
  entries_.push_back(std::move(entry));
  if (waits) {
    environment_.wait_until([&] { return connection.state() != ConnectionState::Pending; },
                            Instant::never());
    if (connection.state() != ConnectionState::Up) {
      const std::string reason = connection.reason();
      disconnect_endpoint(endpoint);
      return fail(ErrorCode::Io, "no connection with {}: {}", address, reason);
    }
  }
  return endpoint;
}

Connection* Initiator::find(EndpointId endpoint) {
  const auto found = std::ranges::find_if(entries_, [&](const auto& entry) {
    return entry->has_endpoint && entry->endpoint == endpoint;
  });
  return found != entries_.end() ? (*found)->connection.get() : nullptr;
}

PollResult Initiator::poll_endpoint(EndpointId endpoint, Duration timeout) {
  const auto state = [&] {
    const Connection* const connection = find(endpoint);
    return connection != nullptr ? connection->state() : ConnectionState::Down;
  };
  const auto has_ended = environment_.wait_until(
      [&] { return state() != ConnectionState::Pending; }, environment_.now() + timeout);
  if (!has_ended) {
    return PollResult::NotYet;
  }
  return state() == ConnectionState::Up ? PollResult::Connected : PollResult::Failed;
}

void Initiator::disconnect_endpoint(EndpointId endpoint) {
  const auto found = std::ranges::find_if(entries_, [&](const auto& entry) {
    return entry->has_endpoint && entry->endpoint == endpoint;
  });
  if (found == entries_.end()) {
    return;
  }
  (*found)->has_endpoint = false;
  (*found)->connection->begin_termination("the endpoint was disconnected");
  release_work_.queue();
  environment_.notify();
}

Session* Initiator::create_session(EndpointId endpoint, const SessionOptions& options) {
  Connection* const connection = find(endpoint);
  if (connection == nullptr || connection->state() != ConnectionState::Up) {
    return nullptr;
  }
  auto session = std::make_unique<Session>();
  const ConnectionOptions& limits = connection->options();
  session->options_ = options;
  session->options_.max_commands = std::min(options.max_commands, limits.max_commands);
  session->host_ = {
      .max_commands = session->options_.max_commands,
      .commands_per_unit = std::min(options.queue_depth, session->options_.max_commands),
      .max_transfer_bytes = limits.max_transfer_bytes};
  if (connection->registrations()->protects()) {
    const core::DeviceAttributes& device = connection->channel()->qp().device().attributes();
    session->host_.protections = host_protections_of(device);
    session->host_.guards = host_guards_of(device);
  }
  return sessions_.emplace_back(std::move(session)).get();
}

void Initiator::destroy_session(Session& session) {
  for (const auto& [index, connection] : session.connections_) {
    stop(*connection, StopFlag::Terminate);
  }
  std::erase_if(sessions_, [&](const auto& one) { return one.get() == &session; });
}

SessionConnection* Initiator::create_connection(Session& session, std::uint32_t index) {
  if (index >= session.options_.max_connections || session.connections_.contains(index)) {
    return nullptr;
  }
  return session.connections_.emplace(index, std::make_unique<SessionConnection>(session, index))
      .first->second.get();
}

Result<void> Initiator::bind(SessionConnection& connection, EndpointId endpoint, bool is_leading,
                             iscsi::DatamoverClient& client) {
  Connection* const found = find(endpoint);
  if (found == nullptr) {
    return fail(ErrorCode::InvalidArgument, "endpoint {} is gone: connect another", endpoint);
  }
  if (connection.connection_ != nullptr) {
    return fail(ErrorCode::InvalidArgument,
                "the connection is bound already: stop it before it is bound to endpoint {}",
                endpoint);
  }
  if (auto bound = found->bind(client); !bound) {
    return bound;
  }
  connection.connection_ = found;
  connection.is_leading_ = is_leading;
  connection.is_started_ = false;
  std::ranges::find_if(entries_,
                       [&](const auto& entry) { return entry->connection.get() == found; })
      ->get()
      ->user = &connection;
  return {};
}

Result<void> Initiator::start(SessionConnection& connection) {
  if (connection.connection_ == nullptr) {
    return fail(ErrorCode::InvalidArgument, "the connection is not bound to an endpoint");
  }
  connection.is_started_ = true;
  return {};
}

void Initiator::stop(SessionConnection& connection, StopFlag flag) {
  Connection* const found = connection.connection_;
  if (found == nullptr) {
    return;
  }
  last_stop_ = flag;
  found->terminate(flag == StopFlag::Recover ? "stopped, to be recovered" : "stopped");
  for (const auto& entry : entries_) {
    if (entry->user == &connection) {
      entry->user = nullptr;
    }
  }
  connection.is_started_ = false;
  connection.connection_ = nullptr;
  release_work_.queue();
}

void Initiator::release() {
  std::erase_if(entries_, [](const auto& entry) {
    const bool is_awaited = entry->user != nullptr && entry->user->is_started_;
    if (entry->has_endpoint || is_awaited || !entry->connection->is_released()) {
      return false;
    }
    if (entry->user != nullptr) {
      entry->user->connection_ = nullptr;
    }
    return true;
  });
  environment_.notify();
}

}  // namespace weft::iser
