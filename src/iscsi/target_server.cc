#include "iscsi/target_server.h"

#include <algorithm>
#include <utility>

#include "iscsi/target_connection.h"
#include "iscsi/target_session.h"

namespace weft::iscsi {

TargetServer::TargetServer(const ServerOptions& options, ServerEnvironment& environment)
    : options_(options),
      environment_(environment),
      completions_(std::make_shared<CompletionQueue>(options.locks,
                                                     [&environment] { environment.wake(); })) {}

TargetServer::~TargetServer() {
  for (const auto& [tsih, session] : sessions_) {
    session->close();
  }
}

Result<void> TargetServer::add_node(const NodeOptions& node) {
  if (auto checked = check_iscsi_name(node.name); !checked) {
    return checked;
  }
  if (auto checked = check_chap_policy(node.chap); !checked) {
    return checked;
  }
  if (find_node(node.name) != nullptr) {
    return fail(ErrorCode::Exists, "there is a target {} already", node.name);
  }
  nodes_.push_back(node);
  return {};
}

Result<void> TargetServer::change_node(const NodeOptions& node) {
  if (auto checked = check_chap_policy(node.chap); !checked) {
    return checked;
  }
  const auto found = std::ranges::find(nodes_, node.name, &NodeOptions::name);
  if (found == nodes_.end()) {
    return fail(ErrorCode::NotFound, "there is no target {}", node.name);
  }
  *found = node;
  return {};
}

Result<void> TargetServer::remove_node(std::string_view name, Instant now) {
  if (std::erase_if(nodes_, [&](const NodeOptions& node) { return node.name == name; }) == 0) {
    return fail(ErrorCode::NotFound, "there is no target {}", name);
  }
  end_sessions_of(name, "the target is gone", now);
  return {};
}

const NodeOptions* TargetServer::find_node(std::string_view name) const {
  const auto found = std::ranges::find(nodes_, name, &NodeOptions::name);
  return found == nodes_.end() ? nullptr : &*found;
}

TargetSession* TargetServer::find_session(std::uint16_t tsih) const {
  const auto found = sessions_.find(tsih);
  return found == sessions_.end() ? nullptr : found->second.get();
}

TargetSession* TargetServer::find_session(std::string_view initiator, std::uint64_t isid,
                                          std::string_view target) const {
  for (const auto& [tsih, session] : sessions_) {
    const SessionIdentity& identity = session->identity();
    if (identity.initiator == initiator && identity.isid == isid && identity.target == target &&
        !identity.is_discovery) {
      return session.get();
    }
  }
  return nullptr;
}

DatamoverClient* TargetServer::accept(Datamover& datamover, Instant now) {
  if (connections_.size() >= options_.max_connections) {
    return nullptr;
  }
  // Who only begins logins takes no place of others for long.
  const auto is_login = [](const auto& one) { return one->is_logging_in(); };
  if (static_cast<std::size_t>(std::ranges::count_if(connections_, is_login)) >=
      options_.max_logins) {
    const auto oldest = std::ranges::find_if(connections_, is_login);
    (*oldest)->end(Datamover::Ending::AtOnce, "too many logins are under way", false, now);
  }
  connections_.push_back(std::make_unique<TargetConnection>(*this, datamover, now));
  return connections_.back().get();
}

void TargetServer::forget(TargetConnection& connection) {
  std::erase_if(connections_, [&](const auto& one) { return one.get() == &connection; });
}

void TargetServer::close_session(TargetSession& session, std::string_view reason, Instant now) {
  const auto found = sessions_.find(session.identity().tsih);
  if (found == sessions_.end()) {
    return;
  }
  // First out of the list: the end of its last connection would close it once more.
  closed_.push_back(std::move(found->second));
  sessions_.erase(found);
  const auto connections = session.connections();
  for (const auto& [cid, connection] : connections) {
    connection->end(Datamover::Ending::AfterOutput, reason, false, now);
  }
  session.close();
}

void TargetServer::close_session_unless_held(TargetSession& session, std::string_view reason,
                                             Instant now) {
  if (!session.is_held_open()) {
    close_session(session, reason, now);
  }
}

std::optional<std::uint16_t> TargetServer::free_tsih() {
  if (sessions_.size() >= options_.max_sessions) {
    return std::nullopt;
  }
  while (next_tsih_ == 0 || sessions_.contains(next_tsih_)) {  // 0 asks for a new session
    ++next_tsih_;
  }
  return next_tsih_++;
}

TargetSession& TargetServer::add_session(const SessionIdentity& identity, const Parameters& agreed,
                                         std::uint32_t first_cmd_sn) {
  auto session = std::make_unique<TargetSession>(*this, identity, agreed, first_cmd_sn,
                                                 options_.command_window);
  return *sessions_.emplace(identity.tsih, std::move(session)).first->second;
}

void TargetServer::check_session(TargetSession& session, Instant now) {
  if (session.connections().empty() && now >= session.retain_deadline()) {
    close_session(session, "nobody came back", now);
  } else if (now >= session.retain_deadline()) {  // RFC 7143 §7.2.2: no allegiance in time
    session.end_overdue(now);
  }
}

void TargetServer::drain(Instant now) {
  std::vector<Ended> ended = std::exchange(spare_, {});
  for (completions_->take(ended); !ended.empty(); completions_->take(ended)) {
    for (const Ended& one : ended) {
      if (const auto* const task = std::get_if<std::shared_ptr<TargetTask>>(&one)) {
        if ((*task)->session != nullptr) {
          (*task)->session->finish(*task, now);
        }
      } else {
        finish_management(std::get<ManagementEnd>(one), now);
      }
    }
    ended.clear();
  }
  spare_ = std::move(ended);
  closed_.clear();
}

void TargetServer::finish_management(const ManagementEnd& ended, Instant now) {
  TargetSession* const session = find_session(ended.tsih);
  if (session == nullptr) {
    return;
  }
  const auto connection = session->connections().find(ended.cid);
  if (connection != session->connections().end()) {
    connection->second->send_management_response(ended.tag, ended.outcome);
  }
  if (ended.is_cold_reset && ended.outcome == wire::iscsi::TaskManagementOutcome::Complete) {
    const std::string target = session->identity().target;
    end_sessions_of(target, "the target is reset", now);
  }
}

void TargetServer::end_sessions_of(std::string_view target, std::string_view reason, Instant now) {
  std::vector<TargetSession*> ended;
  for (const auto& [tsih, session] : sessions_) {
    if (session->identity().target == target) {
      ended.push_back(session.get());
    }
  }
  for (TargetSession* const session : ended) {
    close_session(*session, reason, now);
  }
}

void TargetServer::handle_completions(Instant now) {
  completions_->begin();
  drain(now);
}

void TargetServer::handle_timeout(Instant now) {
  completions_->begin();
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    connections_[i]->handle_timeout(now);
  }
  std::vector<TargetSession*> due;
  for (const auto& [tsih, session] : sessions_) {
    if (now >= session->retain_deadline()) {
      due.push_back(session.get());
    }
  }
  for (TargetSession* const session : due) {
    check_session(*session, now);
  }
  drain(now);
}

Instant TargetServer::deadline() const {
  Instant first = Instant::never();
  for (const auto& connection : connections_) {
    first = std::min(first, connection->deadline());
  }
  for (const auto& [tsih, session] : sessions_) {
    first = std::min(first, session->retain_deadline());
  }
  return first;
}

void TargetServer::shut_down(Instant now) {
  while (!sessions_.empty()) {
    TargetSession& session = *sessions_.begin()->second;
    for (const auto& [cid, connection] : session.connections()) {
      connection->send_async(wire::iscsi::AsyncEvent::SessionDropped, 0, 0, 0);
      break;
    }
    close_session(session, "the target is shut down", now);
  }
  for (const auto& connection : connections_) {
    connection->end(Datamover::Ending::AfterOutput, "the target is shut down", false, now);
  }
  drain(now);
}

}  // namespace weft::iscsi
