#include "iscsi/target_session.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "iscsi/serial.h"
#include "iscsi/target_connection.h"
#include "iscsi/target_server.h"
#include "wire/iscsi/opcode.h"

namespace weft::iscsi {

using wire::iscsi::TaskAttributeCode;

TargetSession::TargetSession(TargetServer& server, const SessionIdentity& identity,
                             const Parameters& agreed, std::uint32_t first_cmd_sn,
                             std::uint32_t command_window)
    : server_(server),
      identity_(identity),
      parameters_(agreed),
      window_(first_cmd_sn, command_window) {}

void TargetSession::attach(std::uint16_t cid, TargetConnection& connection) {
  connections_[cid] = &connection;
  for (const auto& [tag, task] : tasks_) {
    if (task->connection == nullptr && task->cid == cid) {
      task->stat_sn.reset();  // of the connection before it, which counts apart
    }
  }
  retain_deadline_ = soonest_overdue();
}

Instant TargetSession::soonest_overdue() const {
  Instant soonest = Instant::never();
  for (const auto& [cid, until] : lost_) {
    soonest = std::min(soonest, until);
  }
  return soonest;
}

void TargetSession::detach(std::uint16_t cid, bool recovers, Instant now) {
  const auto found = connections_.find(cid);
  if (found == connections_.end()) {
    return;
  }
  TargetConnection* const gone = found->second;
  connections_.erase(found);
  const auto is_of_gone = [&](const HeldRequest& request) { return request.connection == gone; };
  if (recovers) {
    // A command that was aborted counts as received (RFC 7143 §11.6.1): nobody sends it again.
    window_.replace_if([](const HeldRequest& request) {
      return request.task != nullptr && request.task->session == nullptr;
    });
    window_.drop_if(is_of_gone);  // the initiator sends it again, with its CmdSN
  } else {
    window_.replace_if(is_of_gone);  // later ones do not wait for it
  }
  std::vector<std::shared_ptr<TargetTask>> tasks;
  for (const auto& [tag, task] : tasks_) {
    if (task->connection == gone) {
      tasks.push_back(task);
    }
  }
  const Duration patience = Duration::seconds(parameters_.default_time2wait) +
                            Duration::seconds(parameters_.default_time2retain);
  for (const std::shared_ptr<TargetTask>& task : tasks) {
    task->connection = nullptr;
    task->data_deadline = Instant::never();
    if (recovers && !task->in_turn) {
      remove_task(task->tag());
    } else if (!recovers) {
      abandon(task);
    }
  }
  std::erase_if(held_managements_, [&](const auto& held) { return is_of_gone(held.second); });
  if (recovers) {
    lost_[cid] = now + patience;
    retain_deadline_ = soonest_overdue();
  }
  if (connections_.empty()) {
    retain_deadline_ = now + (recovers ? patience : Duration{});
  }
}

// Nobody waits for its status any more.
void TargetSession::abandon(const std::shared_ptr<TargetTask>& task) {
  task->aborted = true;
  if (task->state != TargetTask::State::Submitted) {
    remove_task(task->tag());
  } else {
    identity_.scsi->manage(identity_.nexus, scsi::TaskManagement::AbortTask, task->lun(),
                           task->tag(), [](scsi::TaskManagementResponse) {});
  }
}

void TargetSession::acknowledge_lost(std::uint16_t cid, std::uint32_t exp_stat_sn) {
  std::vector<std::uint32_t> tags;
  for (const auto& [tag, task] : tasks_) {
    if (task->connection == nullptr && task->cid == cid && task->was_answered && task->stat_sn &&
        serial_before(*task->stat_sn, exp_stat_sn)) {
      tags.push_back(tag);
    }
  }
  for (const std::uint32_t tag : tags) {
    remove_task(tag);
  }
}

void TargetSession::end_overdue(Instant now) {
  std::vector<std::shared_ptr<TargetTask>> orphans;
  std::erase_if(lost_, [&](const auto& lost) {
    const auto& [cid, until] = lost;
    if (now < until) {
      return false;
    }
    for (const auto& [tag, task] : tasks_) {
      if (task->connection == nullptr && task->cid == cid) {
        orphans.push_back(task);
      }
    }
    return true;
  });
  retain_deadline_ = soonest_overdue();
  for (const std::shared_ptr<TargetTask>& task : orphans) {
    abandon(task);
  }
}

std::shared_ptr<TargetTask> TargetSession::find_task(std::uint32_t tag) const {
  const auto found = tasks_.find(tag);
  return found == tasks_.end() ? nullptr : found->second;
}

void TargetSession::add_task(const std::shared_ptr<TargetTask>& task) {
  tasks_.emplace(task->tag(), task);
}

void TargetSession::take(std::uint32_t cmd_sn, HeldRequest request, Instant now) {
  HeldRequest mine = request;
  if (window_.take(cmd_sn, std::move(request)) != CommandWindow<HeldRequest>::Verdict::Next) {
    return;
  }
  perform(mine, now);
  while (std::optional<HeldRequest> next = window_.next()) {
    perform(*next, now);
  }
  open_window();
  perform_held_managements(now);
}

bool TargetSession::hold_management(std::uint32_t cmd_sn, HeldRequest request) {
  const bool waits =
      serial_before(window_.expected(), cmd_sn) && !serial_before(window_.maximum() + 1, cmd_sn);
  if (waits) {
    held_managements_.emplace_back(cmd_sn, std::move(request));
  }
  return waits;
}

void TargetSession::perform_held_managements(Instant now) {
  for (std::size_t i = 0; i < held_managements_.size();) {
    if (serial_before(window_.expected(), held_managements_[i].first)) {
      ++i;
      continue;
    }
    HeldRequest request = std::move(held_managements_[i].second);
    held_managements_.erase(held_managements_.begin() + static_cast<std::ptrdiff_t>(i));
    perform(request, now);
  }
}

void TargetSession::begin_turn(const std::shared_ptr<TargetTask>& task, Instant now) {
  task->in_turn = true;
  count(*task);
  if (task->aborted) {
    answer_refused(task, now);
    return;
  }
  undelivered_.push_back(task);
  deliver();
}

void TargetSession::refuse(const std::shared_ptr<TargetTask>& task,
                           const scsi::Completion& completion, Instant now) {
  task->completion = completion;
  task->aborted = true;
  task->data_deadline = Instant::never();
  if (task->in_turn) {
    answer_refused(task, now);
    deliver();  // what waited for it
  }
}

void TargetSession::answer_refused(const std::shared_ptr<TargetTask>& task, Instant now) {
  task->state = TargetTask::State::Answered;
  count(*task);
  open_window();
  task->connection->send_scsi_response(task, now);
}

void TargetSession::perform(HeldRequest& request, Instant now) {
  if (request.task != nullptr) {
    if (request.task->session == nullptr) {
      return;  // aborted while it was held
    }
    begin_turn(request.task, now);
  } else if (request.connection != nullptr) {
    request.connection->perform(request, now);
  }
}

bool TargetSession::forget_command(std::uint32_t cmd_sn, std::uint32_t own_cmd_sn, Instant now) {
  if (!window_.is_welcome(cmd_sn) || !serial_before(cmd_sn, own_cmd_sn)) {
    return false;
  }
  take(cmd_sn, HeldRequest{}, now);
  return true;
}

void TargetSession::deliver() {
  std::vector<std::shared_ptr<TargetTask>> ready;
  bool all_before = true;  // all that came before are delivered
  bool stops = false;      // an ordered one waits
  std::erase_if(undelivered_, [&](const std::shared_ptr<TargetTask>& task) {
    if (task->aborted) {
      return true;
    }
    const bool goes = task->has_data() && !stops && (all_before || !task->is_ordered());
    if (goes) {
      ready.push_back(task);
    } else {
      all_before = false;
      stops = stops || task->is_ordered();
    }
    return goes;
  });
  for (const std::shared_ptr<TargetTask>& task : ready) {
    if (task->session == nullptr) {
      continue;
    }
    task->state = TargetTask::State::Submitted;
    task->data_deadline = Instant::never();
    task->command = {.nexus = identity_.nexus,
                     .lun = task->lun(),
                     .tag = task->tag(),
                     .attribute = scsi::TaskAttribute::Simple,
                     .cdb = task->cdb,
                     .data_out = task->data_out.octets(),
                     .data_in = task->data_in.octets(),
                     .lend_to = task->protection ? nullptr : &task->lent,
                     .stores_short_data = true,
                     .apart = {},
                     .client = task.get()};
    if (task->protection) {
      task->command.apart = {.how = *task->protection,
                             .tuples = task->tuples.octets(),
                             .fault = task->protection_error};
    }
    switch (task->header.attribute) {
      case TaskAttributeCode::Ordered:
        task->command.attribute = scsi::TaskAttribute::Ordered;
        break;
      case TaskAttributeCode::HeadOfQueue:
        task->command.attribute = scsi::TaskAttribute::HeadOfQueue;
        break;
      case TaskAttributeCode::Aca:
        task->command.attribute = scsi::TaskAttribute::Aca;
        break;
      case TaskAttributeCode::Untagged:
      case TaskAttributeCode::Simple:
        break;
    }
    task->self_ = task;
    identity_.scsi->submit(task->command);
  }
}

void TargetSession::remove_task(std::uint32_t tag) {
  const auto found = tasks_.find(tag);
  if (found == tasks_.end()) {
    return;
  }
  const std::shared_ptr<TargetTask> task = std::move(found->second);
  tasks_.erase(found);
  task->session = nullptr;
  task->connection = nullptr;
  count(*task);
  std::erase(undelivered_, task);
  open_window();
}

/// After what decides whether a task takes a place of the command window (RFC 7143 §4.2.2.1).
void TargetSession::count(TargetTask& task) {
  const bool takes = task.session == this && !task.header.immediate && task.in_turn &&
                     task.state != TargetTask::State::Answered;
  if (std::exchange(task.takes_window, takes) != takes) {
    under_way_ = takes ? under_way_ + 1 : under_way_ - 1;
  }
}

void TargetSession::open_window() {
  WEFT_DEBUG_ASSERT(std::ranges::count_if(tasks_,
                                          [](const auto& entry) {
                                            const TargetTask& task = *entry.second;
                                            return !task.header.immediate && task.in_turn &&
                                                   task.state != TargetTask::State::Answered;
                                          }) == under_way_,
                    "every change was counted");
  window_.open(under_way_);
}

void TargetSession::finish(const std::shared_ptr<TargetTask>& task, Instant now) {
  task->hold.reset();
  if (task->aborted || !task->completion.has_status) {
    remove_task(task->tag());
    return;
  }
  task->state = TargetTask::State::Answered;
  count(*task);
  open_window();
  if (task->connection != nullptr) {
    task->connection->answer(task, now);
  }  // else it waits for a new allegiance
}

void TargetSession::close() {
  for (const auto& [tag, task] : tasks_) {
    task->session = nullptr;
    task->connection = nullptr;
  }
  tasks_.clear();
  undelivered_.clear();
  if (identity_.scsi != nullptr) {
    identity_.scsi->close_nexus(identity_.nexus, [] {});
  }
}

std::uint32_t TargetSession::next_transfer_tag() {
  const std::uint32_t tag = next_transfer_tag_++;
  return tag != wire::iscsi::kNoTag ? tag : next_transfer_tag();
}

std::size_t TargetSession::immediate_tasks() const {
  std::size_t count = 0;
  for (const auto& [tag, task] : tasks_) {
    count += task->header.immediate ? 1 : 0;
  }
  return count;
}

}  // namespace weft::iscsi
