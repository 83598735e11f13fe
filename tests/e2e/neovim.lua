-- Drives a real Neovim: attaches Goalwright, has a problem fixed, and writes what the user saw. Works from 0.7 on.
local given = vim.fn.json_decode(vim.env.GOALWRIGHT_TEST)
local seen = { asked = {}, documents = 0, changed = {} }
local ended = false

vim.cmd('source ' .. given.settings)
vim.cmd('edit ' .. given.file)
vim.api.nvim_create_autocmd('FileChangedShellPost', {
  callback = function() table.insert(seen.changed, vim.v.fcs_reason) end,
})

local client
local id = vim.lsp.start_client({
  name = 'goalwright',
  cmd = given.cmd,
  root_dir = given.root,
  init_options = given.options,
  handlers = {
    ['window/showMessageRequest'] = function(_, request)
      table.insert(seen.asked, request.message)
      -- The user accepts edits and rejects commands.
      local wanted = request.message:find('rates.py', 1, true) and 'Accept' or 'Reject'
      for _, action in ipairs(request.actions) do
        if action.title == wanted then return action end
      end
    end,
    ['window/showDocument'] = function()
      seen.documents = seen.documents + 1
      return { success = true }
    end,
    ['window/showMessage'] = function() end,
    ['$/progress'] = function(_, told) ended = ended or told.value.kind == 'end' end,
  },
  on_init = function(started) client = started end,
})
assert(vim.wait(30000, function() return client ~= nil end, 20), 'Goalwright did not start')
vim.lsp.buf_attach_client(0, id)
local problem = { message = 'too dear', range = { start = { line = 0, character = 0 }, ['end'] = { line = 0, character = 5 } } }
client.request('workspace/executeCommand', {
  command = 'goalwright.fix',
  arguments = { { uri = vim.uri_from_bufnr(0), diagnostics = { problem } } },
}, function(error) seen.error = error end, 0)
seen.ended = vim.wait(60000, function() return ended and #seen.asked >= given.questions end, 20)

local function lines() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n') .. '\n' end
seen.buffer = lines()
-- What a user does next: come back to the window, type, save. A question here would wait for ever.
vim.cmd('checktime')
seen.modified = vim.bo.modified
vim.api.nvim_buf_set_lines(0, -1, -1, false, { 'TYPED = 1' })
vim.cmd('write')
vim.cmd('undo')
vim.cmd('undo')
seen.undone = lines()
vim.fn.writefile({ vim.fn.json_encode(seen) }, given.out)
vim.cmd('qall!')
